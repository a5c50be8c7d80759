# editor.py - Opens a file in dl-lsp-server as an editor would, and prints what it answers.
#
#   editor.py FILE [REQUEST LINE:COLUMN]...
#
# REQUEST is hover, definition, references or completion. Lines and columns count from 1 here, from 0
# in the protocol. Prints the diagnostics of the file, then the answer to each request.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import json
import pathlib
import signal
import subprocess
import sys


class Server:
    def __init__(self):
        self.process = subprocess.Popen(
            ["dl-lsp-server", "--log=error"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.requests = 0

    def send(self, method, parameters, **more):
        message = {"jsonrpc": "2.0", "method": method, "params": parameters, **more}
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while header := self.process.stdout.readline().strip():
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        if not length:
            sys.exit(f"the server left: exit status {self.process.wait()}")
        return json.loads(self.process.stdout.read(length))

    def notice(self, method):
        """The parameters of the next notification of that kind."""
        while (message := self.receive()).get("method") != method:
            pass
        return message["params"]

    def ask(self, method, parameters):
        self.requests += 1
        self.send(method, parameters, id=self.requests)
        while (message := self.receive()).get("id") != self.requests:
            pass
        if "error" in message:
            sys.exit(f"{method}: {message['error']}")
        return message["result"]


def place(range_):
    start, end = range_["start"], range_["end"]
    text = f"{start['line'] + 1}:{start['character'] + 1}"
    return text + f"-{end['line'] + 1}:{end['character'] + 1}"


def show(request, answer):
    if request == "hover":
        print(answer["contents"]["value"] if answer else "nothing")
    elif request == "completion":
        for item in answer["items"]:
            print(item["label"], "-", item.get("detail", ""))
    else:
        for location in answer:
            print(place(location["range"]))


def main():
    signal.alarm(120)  # an answer that does not come is a failure, not a wait for ever
    path = pathlib.Path(sys.argv[1])
    document = {"uri": path.resolve().as_uri()}
    server = Server()
    capabilities = server.ask(
        "initialize", {"processId": None, "rootUri": None, "capabilities": {}}
    )["capabilities"]
    server.send("initialized", {})
    opened = {"languageId": "mlir", "version": 1, "text": path.read_text(encoding="utf-8")}
    server.send("textDocument/didOpen", {"textDocument": {**document, **opened}})
    found = server.notice("textDocument/publishDiagnostics")["diagnostics"]
    print("diagnostics:", len(found))
    for diagnostic in found:
        print(f"{place(diagnostic['range'])}: {diagnostic['message']}")
    for request, position in zip(sys.argv[2::2], sys.argv[3::2]):
        line, column = (int(number) - 1 for number in position.split(":"))
        parameters = {"textDocument": document, "position": {"line": line, "character": column}}
        parameters["context"] = {"includeDeclaration": True, "triggerKind": 1}
        print(f"{request} {position}:")
        if not capabilities.get(f"{request}Provider"):
            sys.exit(f"the server does not offer {request}")
        show(request, server.ask(f"textDocument/{request}", parameters))
    server.ask("shutdown", None)
    server.send("exit", None)
    sys.exit(server.process.wait(timeout=60))


main()
