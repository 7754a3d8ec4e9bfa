"""One process of the test of flows: it uses nothing but the client. Arguments: coordinator, role, and what it does."""
import asyncio
import os
import sys

from muster_dcs import CoordinatorError, Tensor, create_client

NAMES = [f"layer.{i}.weight" for i in range(12)]
BYTES = 1 << 18
BACKEND = os.environ.get("DCS_BACKEND", "tcp")


def tensors_of(version):
    """Tensors that are full of their version, so that a mix of two shows."""
    return {name: Tensor("uint8", (BYTES,), bytes([version % 251]) * BYTES) for name in NAMES}


async def source(url, stage, stages):
    metadata = {"pp_rank": int(stage), "pp_size": int(stages), "is_pp_src_rank": True}
    client = await create_client(url, "actor", metadata=metadata, shared_memory=False, timeout_seconds=60, backend_type=BACKEND,
                                 heartbeat_interval_seconds=0.3, max_retries=8, retry_delay_seconds=0.2)
    print("registered", client.node_id, flush=True)
    last = 0
    while True:
        try:
            newest = await asyncio.to_thread(client.coordinator.get, "/weight_offer", group_name=f"rollout/pp_{stage}")
            last = newest["version"] or 0
            mine = {f"{stage}.{name}": tensor for name, tensor in tensors_of(last + 1).items()}
            result = await client.update_weights_for_rollout(tensors=mine)
            print("published", result.version, len(result.missing), flush=True)
        except CoordinatorError as error:
            print("trouble", error.status, flush=True)
            await asyncio.sleep(0.2)


async def receiver(url, role, stages):
    client = await create_client(url, role, shared_memory=False, backend_type=BACKEND, heartbeat_interval_seconds=0.3, max_retries=8,
                                 retry_delay_seconds=0.2)
    print("registered", client.node_id, flush=True)
    while True:
        weights = await client.recv_weight(60)
        expected = bytes([weights.version % 251]) * BYTES
        whole = len(weights.tensors) == len(NAMES) * int(stages)
        same = all(bytes(tensor.data) == expected for tensor in weights.tensors.values())
        print("holds" if whole and same else "TORN", weights.version, flush=True)
        if BACKEND != "tcp":
            print("fell back", client.metrics.get_all()["errors"].get(BACKEND, 0), flush=True)


async def main(url, role, *more):
    await (source(url, *more) if role == "actor" else receiver(url, role, *more))


asyncio.run(main(*sys.argv[1:]))
