"""Who may ask: one test for each line of docs/serving.md's list."""

import asyncio
import subprocess
import sys

import aiohttp
import pytest
from serving import connected, steps


def run(work):
    return asyncio.run(work)


def test_only_names_of_this_machine_are_served(server):
    """DNS rebinding: a page under a name that somebody else owns, and that points here."""

    async def work():
        async with aiohttp.ClientSession() as session:
            for host, status in (("evil.example", 403), ("evil.example:8188", 403), ("localhost", 200)):
                async with session.get(f"{server.url}/prompt", headers={"Host": host}) as answer:
                    assert answer.status == status, host

    run(work())


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"])
def test_pages_of_other_sites_are_refused(server, origin):
    """Cross-site posts (CVE-2024-10481), the origin `null` (CVE-2026-56674), and websockets."""

    async def work():
        async with aiohttp.ClientSession() as session:
            headers = {"Origin": origin}
            body = {"prompt": steps()}
            async with session.post(f"{server.url}/prompt", json=body, headers=headers) as answer:
                assert answer.status == 403
            async with session.get(f"{server.url}/queue", headers=headers) as answer:
                assert answer.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(f"{server.url}/ws", headers=headers)

    run(work())


def test_what_a_browser_says_of_cross_site_requests_is_heeded(server):
    async def work():
        async with aiohttp.ClientSession() as session:
            headers = {"Sec-Fetch-Site": "cross-site"}
            async with session.post(f"{server.url}/interrupt", headers=headers) as answer:
                assert answer.status == 403
            async with session.get(f"{server.url}/prompt", headers=headers) as answer:
                assert answer.status == 200  # following a link

    run(work())


def test_pages_of_this_server_are_served(server):
    async def work():
        async with connected(server.url, headers={"Origin": server.url}) as client:
            await client.get("/queue")

    run(work())


def test_listening_elsewhere_needs_a_token(tmp_path):
    command = [sys.executable, "-c", "from slipstream.executor.cli import main; main()", "serve"]
    answer = subprocess.run(
        [*command, "--host", "0.0.0.0", "--port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert answer.returncode == 2
    assert "a --token is needed" in answer.stderr


def test_a_token_is_asked_for_everywhere(start_server):
    server = start_server("--token", "secret", ready=False)

    async def work():
        async with aiohttp.ClientSession() as session:
            for path in ("/prompt", "/api/queue", "/object_info", "/userdata?dir=x", "/ready", "/none"):
                async with session.get(server.url + path) as answer:
                    assert answer.status == 401, path
                async with session.get(
                    server.url + path, headers={"Authorization": "Bearer wrong"}
                ) as answer:
                    assert answer.status == 401, path
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(f"{server.url}/ws")
            async with session.get(f"{server.url}/health") as answer:
                assert answer.status == 200
            async with session.get(f"{server.url}/", headers={"Accept": "text/html"}) as answer:
                assert "Token" in await answer.text()  # the login page
            async with session.post(f"{server.url}/login", data={"token": "wrong"}) as answer:
                assert answer.status == 401
        async with connected(server.url, headers={"Authorization": "Bearer secret"}) as client:
            await client.get("/queue")
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            async with session.post(f"{server.url}/login", data={"token": "secret"}) as answer:
                assert answer.status == 200
            cookie = next(iter(jar))
            assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
            async with session.ws_connect(f"{server.url}/ws"), session.get(f"{server.url}/queue") as answer:
                assert answer.status == 200

    run(work())
    assert "secret" not in (server.folder / "log").read_text()


def test_the_queue_is_private_to_its_owner(server):
    assert (server.folder / "slipstream-data").stat().st_mode & 0o077 == 0


def test_secrets_of_a_prompt_are_not_shown_to_others(server):
    async def work():
        async with connected(server.url) as client:
            secret = {"auth_token_comfy_org": "t0ken", "api_key_comfy_org": "k3y", "kept": 1}
            answer = await client.submit(steps(pause=0.4), extra_data=secret)
            for path in ("/queue", f"/jobs/{answer['prompt_id']}"):
                text = str(await client.get(path))
                assert "t0ken" not in text
                assert "k3y" not in text
            entry = await client.ended(answer["prompt_id"])
            assert entry["prompt"][3] == {"kept": 1, "client_id": "me"}

    run(work())
