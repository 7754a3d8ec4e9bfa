#include "core/collectives.h"

namespace muster {

namespace {

const char* nameOf(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::Barrier: return "barrier";
    case Operation::Kind::AllReduce: return "all-reduce";
    case Operation::Kind::ReduceScatter: return "reduce-scatter";
    case Operation::Kind::AllGather: return "all-gather";
    case Operation::Kind::Broadcast: return "broadcast";
    case Operation::Kind::Send: return "send";
    case Operation::Kind::Receive: return "receive";
  }
  return "unknown";
}

const char* nameOf(DType type) { return type == DType::F32 ? "f32" : type == DType::Bf16 ? "bf16" : "bytes"; }

}  // namespace

// kind: 4 bits | dtype: 4 | reduction: 4 | peer: 12 | count: 40
uint64_t Operation::encoded() const {
  return static_cast<uint64_t>(kind) | static_cast<uint64_t>(dtype) << 4 | static_cast<uint64_t>(reduction) << 8 |
         static_cast<uint64_t>(peer) << 12 | count << 24;
}

Operation Operation::decode(uint64_t word) {
  Operation out;
  out.kind = static_cast<Kind>(word & 0xF);
  out.dtype = static_cast<DType>(word >> 4 & 0xF);
  out.reduction = static_cast<Reduction>(word >> 8 & 0xF);
  out.peer = static_cast<uint32_t>(word >> 12 & 0xFFF);
  out.count = word >> 24;
  return out;
}

std::string Operation::text() const {
  if (kind == Kind::Barrier) return nameOf(kind);
  const bool mean = reduces() && reduction == Reduction::Mean;
  const std::string what = std::string(nameOf(kind)) + (reduces() ? mean ? " (mean)" : " (sum)" : "");
  const std::string elements = what + " of " + std::to_string(count) + " " + nameOf(dtype);
  if (kind == Kind::Broadcast) return elements + " from rank " + std::to_string(peer);
  if (kind == Kind::Send) return elements + " to rank " + std::to_string(peer);
  if (kind == Kind::Receive) return elements + " from rank " + std::to_string(peer);
  return elements;
}

}  // namespace muster
