# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of PostgreSQL's socket that cuts connections: before a request gets through, so that nothing is
done, or in place of the answer, so that all is done and nobody is told."""
import asyncio
import os
import random
import threading

ASKED, ANSWERED = "asked", "answered"


class Cutter:
    """Listens in a directory of its own, as PG_HOST names one; cuts between start_cutting and stop_cutting."""

    def __init__(self, server, directory):
        self.server = server
        self.cut = {ASKED: 0, ANSWERED: 0}
        self.next = None
        self.cutting = None
        self.pumps = set()
        os.mkdir(directory)
        self.path = os.path.join(directory, os.path.basename(server))
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self._call(self._listen())

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    async def _listen(self):
        self.listener = await asyncio.start_unix_server(self._accept, self.path)

    async def _accept(self, reader, writer):
        up_reader, up_writer = await asyncio.open_unix_connection(self.server)
        for pump in (self._pump(reader, up_writer, writer, ASKED), self._pump(up_reader, writer, up_writer, ANSWERED)):
            task = self.loop.create_task(pump)
            self.pumps.add(task)
            task.add_done_callback(self.pumps.discard)

    async def _pump(self, reader, writer, back, direction):
        try:
            while data := await reader.read(1 << 16):
                if self.next == direction:
                    self.next = None
                    self.cut[direction] += 1
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the other direction was cut
        finally:
            writer.close()
            back.close()

    async def _choose(self):
        while True:
            await asyncio.sleep(random.uniform(0.05, 0.3))
            self.next = random.choice((ASKED, ANSWERED, ANSWERED))

    async def _start(self):
        self.cutting = self.loop.create_task(self._choose())

    async def _stop(self):
        self.cutting.cancel()
        self.next = None

    def start_cutting(self):
        self._call(self._start())

    def stop_cutting(self):
        self._call(self._stop())

    async def _close(self):
        self.listener.close()
        for pump in list(self.pumps):
            pump.cancel()
        await asyncio.gather(*self.pumps, return_exceptions=True)

    def close(self):
        self._call(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
