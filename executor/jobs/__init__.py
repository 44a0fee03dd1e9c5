"""The queue of a server: jobs that are on disk before anybody hears of them. No torch, no HTTP."""
