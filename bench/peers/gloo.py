#!/usr/bin/python3
"""One collective of torch.distributed with gloo, timed: gloo.py OPERATION WORLD BYTES REPEATS [NAMESPACES].

Prints one line of JSON: seconds of each repeat (from a barrier until every rank is done), and CPU seconds of all ranks together for
one repeat. OPERATION: broadcast, allreduce, broadcast-many (BYTES in tensors of 64 KiB, one after another). NAMESPACES, as
name=address,name=address, puts each rank into a network namespace of its own.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time

import torch
import torch.distributed as dist

PIECE_ELEMENTS = 64 * 1024 // 4


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def enter(namespace):
    fd = os.open("/var/run/netns/" + namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000) != 0:
        raise OSError("cannot enter the network namespace " + namespace)
    os.close(fd)


def work_of(operation, elements):
    tensor = torch.ones(elements, dtype=torch.float32)
    if operation == "broadcast":
        return lambda: dist.broadcast(tensor, 0)
    if operation == "allreduce":
        return lambda: dist.all_reduce(tensor)
    pieces = [torch.ones(PIECE_ELEMENTS) for _ in range(elements // PIECE_ELEMENTS)]
    return lambda: [dist.broadcast(piece, 0) for piece in pieces]


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def rank_main(rank, world, operation, elements, repeats, port, places):
    end_with_parent()
    torch.set_num_threads(1)
    if places:
        enter(places[rank][0])
    os.environ.update(
        MASTER_ADDR=places[0][1] if places else "127.0.0.1",
        MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="eth0" if places else "lo",
    )
    dist.init_process_group("gloo", rank=rank, world_size=world)
    work = work_of(operation, elements)
    work()  # warms up
    seconds = []
    cpu_before = cpu_seconds()
    for _ in range(repeats):
        dist.barrier()
        started = time.perf_counter()
        work()
        dist.barrier()
        seconds.append(time.perf_counter() - started)
    cpu = torch.tensor([cpu_seconds() - cpu_before], dtype=torch.float64)
    dist.all_reduce(cpu)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "cpuSeconds": cpu.item() / repeats}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def main():
    operation, world, size, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    places = [place.split("=") for place in sys.argv[5].split(",")] if len(sys.argv) > 5 else []
    port = free_port()
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            rank_main(rank, world, operation, size // 4, repeats, port, places)
            os._exit(0)
        children.append(child)
    worst = max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    sys.exit(1 if worst else 0)


if __name__ == "__main__":
    main()
