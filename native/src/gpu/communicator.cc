#include "gpu/communicator.h"

#include <algorithm>
#include <utility>

#include "gpu/communicator_core.h"

namespace muster {

Result<nccl::UniqueId> Communicator::newId(const NcclLibrary& library) {
  nccl::UniqueId id{};
  const nccl::Result got = library.call().getUniqueId(&id);
  if (got != nccl::kSuccess) return Status{Code::Io, "ncclGetUniqueId: " + library.nameOf(got), {}};
  return id;
}

Result<std::shared_ptr<Communicator>> Communicator::open(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<GpuDevice> gpu,
                                                         const CommunicatorOptions& options, const Patience& patience) {
  if (options.ranks == 0 || options.rank >= options.ranks)
    return Status{Code::InvalidArgument, "rank " + std::to_string(options.rank) + " of " + std::to_string(options.ranks), {}};
  const auto core = std::make_shared<Core>(Core{std::move(library), std::move(gpu), options.keepForShrink});
  Result<std::unique_ptr<OwnerThread>> owner = OwnerThread::start();
  if (!owner.ok()) return owner.status();
  std::shared_ptr<Communicator> made(new Communicator(core, std::move(owner.value()), options.ranks, options.rank));
  const auto begin = [core, options](const Patience& p) { return core->begin(&options, p); };
  if (Status ready = made->owner_->run(begin, patience); !ready.ok()) return ready;
  return made;
}

Status Communicator::valid(const std::vector<CommunicatorCall>& calls) const {
  if (calls.empty()) return {Code::InvalidArgument, "no operation", {}};
  for (const CommunicatorCall& call : calls) {
    const bool named = call.collective == Collective::Broadcast || call.collective == Collective::Send || call.collective == Collective::Receive;
    if (named && call.peer >= ranks_)
      return {Code::InvalidArgument, "rank " + std::to_string(call.peer) + " of " + std::to_string(ranks_), {}};
  }
  return {};
}

Status Communicator::run(std::vector<CommunicatorCall> calls, const Patience& patience, cuda::Stream behind) {
  if (Status fine = valid(calls); !fine.ok()) return fine;
  const auto runOnce = [core = core_, calls = std::move(calls), behind](const Patience& p) { return core->run(calls, behind, p); };
  return explained(owner_->run(runOnce, patience));
}

Result<std::shared_ptr<Communicator>> Communicator::shrink(const std::vector<uint32_t>& excluded, const Patience& patience) {
  std::vector<int> gone(excluded.begin(), excluded.end());
  std::ranges::sort(gone);
  const bool twice = std::ranges::adjacent_find(gone) != gone.end();
  if (twice || gone.empty() || gone.back() >= static_cast<int>(ranks_) || std::ranges::binary_search(gone, static_cast<int>(rank_)))
    return Status{Code::InvalidArgument, "excluded ranks are others than this one, each named once", {}};
  const auto child = std::make_shared<Core>(Core{core_->library, core_->gpu, core_->keepForShrink});
  const auto shrinkOnce = [core = core_, gone, child](const Patience& p) { return core->shrink(gone, child->comm, p); };
  Status shrunk = owner_->run(shrinkOnce, patience);
  leave();
  if (!shrunk.ok()) return shrunk;
  Result<std::unique_ptr<OwnerThread>> owner = OwnerThread::start();
  if (!owner.ok()) return owner.status();
  const auto lower = std::ranges::count_if(gone, [&](int rank) { return rank < static_cast<int>(rank_); });
  std::shared_ptr<Communicator> made(new Communicator(child, std::move(owner.value()), ranks_ - static_cast<uint32_t>(gone.size()),
                                                      rank_ - static_cast<uint32_t>(lower)));
  const auto begin = [child](const Patience& p) { return child->begin(nullptr, p); };
  if (Status ready = made->owner_->run(begin, patience); !ready.ok()) return ready;
  return made;
}

void Communicator::abort(const std::string& reason) {
  {
    const std::lock_guard lock(reasonGuard_);
    if (reason_.empty()) reason_ = reason;
  }
  leave();
}

Status Communicator::explained(Status status) {
  const std::lock_guard lock(reasonGuard_);
  if ((status.code == Code::Aborted || status.code == Code::Closed) && !reason_.empty()) status.message = reason_;
  return status;
}

Status Communicator::close(const Patience& patience) {
  Status closed = owner_->run(
      [core = core_](const Patience& p) {
        Status finished = core->finish(p);
        core->release();
        return finished;
      },
      patience);
  leave();
  return closed.code == Code::Closed ? Status{} : closed;
}

void Communicator::leave() {
  owner_->end([core = core_](const Patience&) {
    core->release();
    return Status{};
  });
}

}  // namespace muster
