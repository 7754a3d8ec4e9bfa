// What the operations of a group must fulfil, whatever carries them.
#pragma once

#include "core/collectives.h"
#include "core/mesh_segment.h"

namespace muster {

// A rank's place in a group whose inputs and results hold `capacityBytes`.
struct GroupPlace {
  uint32_t rank;
  uint32_t worldSize;
  uint64_t capacityBytes;
};

// Code::InvalidArgument for what a rank alone can see to be wrong.
Status checkOperation(const Operation& operation, const GroupPlace& place);

// Bytes of the result that are there for this rank, or of a message.
uint64_t resultBytesOf(const Operation& operation, const GroupPlace& place);

// Whether all ranks do the same. They look at the same words between the same barriers, so all come to the same verdict.
Status checkAgreement(const Operation& operation, const MeshSegment& segment);

// The verdicts of both sides on a message that the receiver does not want.
Status unwantedBy(uint32_t receiver, const Operation& message);
Status differsFrom(const Operation& own, uint32_t sender, const Operation& message);

}  // namespace muster
