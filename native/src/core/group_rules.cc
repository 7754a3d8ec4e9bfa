#include "core/group_rules.h"

#include "core/mesh_watch.h"

namespace muster {

using Kind = Operation::Kind;

Status checkOperation(const Operation& operation, const GroupPlace& place) {
  const auto wrong = [&](const std::string& why) { return Status{Code::InvalidArgument, operation.text() + ": " + why, {}}; };
  if (operation.count > kOperationCountMax) return wrong("too many elements");
  const uint64_t room = operation.kind == Kind::AllGather ? place.capacityBytes / place.worldSize : place.capacityBytes;
  if (operation.bytes() > room) return wrong("at most " + std::to_string(room) + " bytes fit");
  if (operation.reduces() && operation.dtype == DType::U8) return wrong("bytes cannot be added up");
  const bool message = operation.kind == Kind::Send || operation.kind == Kind::Receive;
  if (operation.peer >= place.worldSize) return wrong("there is no such rank");
  if (message && operation.peer == place.rank) return wrong("that is this rank itself");
  const bool fills = operation.kind == Kind::Receive || !operation.into.empty();
  if (fills && operation.into.size() != resultBytesOf(operation, place))
    return wrong("the target has " + std::to_string(operation.into.size()) + " bytes");
  return {};
}

uint64_t resultBytesOf(const Operation& operation, const GroupPlace& place) {
  if (operation.kind == Kind::AllGather) return operation.bytes() * place.worldSize;
  if (operation.kind != Kind::ReduceScatter) return operation.bytes();
  const Range slice = sliceOf(operation.count, place.rank, place.worldSize);
  return (slice.end - slice.begin) * sizeOf(operation.dtype);
}

Status checkAgreement(const Operation& operation, const MeshSegment& segment) {
  const uint64_t ours = operation.encoded();
  for (uint32_t rank = 0; rank < segment.shape().worldSize; rank++) {
    const uint64_t theirs = segment.member(rank).op.load(std::memory_order_relaxed);
    if (theirs != ours) return differsFrom(operation, rank, Operation::decode(theirs));
  }
  return {};
}

Status unwantedBy(uint32_t receiver, const Operation& message) {
  return {Code::Disagreement, namesOf({receiver}) + " does not want the " + message.text(), {receiver}};
}

Status differsFrom(const Operation& own, uint32_t sender, const Operation& message) {
  return {Code::Disagreement, namesOf({sender}) + " does " + message.text() + ", this rank " + own.text(), {sender}};
}

}  // namespace muster
