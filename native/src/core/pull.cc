#include "core/pull.h"

#include <algorithm>
#include <numeric>

#include "core/activity.h"
#include "core/delta_base.h"
#include "core/holder.h"
#include "core/landing.h"
#include "core/parallel_blocks.h"
#include "core/shared_memory.h"
#include "core/xxh64.h"
#include "cpu/stream_copy.h"

namespace muster {

namespace {

class Pull {
 public:
  Pull(const PullOptions& options, const Patience& patience)
      : options_(options), patience_{patience.deadline, patience.abort} {}

  Result<Pulled> run();

 private:
  Result<Pulled> fromOwnStore() const;
  Result<Pulled> from(const Address& holder);
  Result<Pulled> tryHolder(const Address& holder);
  Result<std::vector<Section>> request(Holder& holder, bool remote);
  Status agree(const std::vector<Section>& offered) const;
  Result<Pulled> mapShared(Connection connection, const std::vector<Section>& sections, const std::string& holder) const;
  Result<Pulled> receiveStream(Holder& from, const std::vector<Section>& sections, const std::string& holder);
  Status receiveAll(Holder& from);
  Status receiveDelta(Holder& from, const FrameHeader& header, const Patience& patience);
  void chooseBase(const Address& holder);
  Status receiveData(Connection& connection, const FrameHeader& header, const Patience& patience);
  Status accept(uint64_t length);
  Status fill(const Pulled& pulled) const;
  bool others() const { return options_.holders.size() > 1; }
  uint64_t verified() const { return landing_ ? landing_->verified() : 0; }

  const PullOptions& options_;
  const Patience patience_;
  bool reached_ = false;  // the holder tried last: worth another try when it breaks off
  bool again_ = false;    // all holders were tried
  std::optional<Landing> landing_;  // of the TCP stream, whichever holders it comes from
  std::optional<DeltaBase> base_;   // asked for deltas to it
  bool mistrusted_ = false;         // a delta did not fit: the rest comes whole
  size_t deltaBlocks_ = 0;
  uint64_t wireBytes_ = 0;
  std::optional<VersionId> applied_;  // the base of the deltas that were applied
};

Status verdict(const std::vector<Status>& failures) {
  constexpr Code kTelling[] = {Code::DigestMismatch, Code::Refused, Code::Gone};
  Status out{Code::Unreachable, "", {}};
  for (const Code code : kTelling) {
    if (out.code != Code::Unreachable) break;
    if (std::ranges::find(failures, code, &Status::code) != failures.end()) out.code = code;
  }
  for (const Status& failure : failures) out.message += (out.message.empty() ? "" : "; ") + failure.message;
  if (failures.empty()) out.message = "no holder is named";
  return out;
}

Result<Pulled> Pull::run() {
  if (Result<Pulled> here = fromOwnStore(); here.ok()) {
    if (Status filled = fill(here.value()); !filled.ok()) return filled;
    return here;
  }
  std::vector<const Address*> holders;
  for (const Address& holder : options_.holders) holders.push_back(&holder);
  std::vector<Status> failures;
  for (int pass = 0;; pass++) {
    const uint64_t before = verified();
    std::vector<const Address*> brokeOff;
    for (const Address* holder : holders) {
      if (!failures.empty()) activity().note(again_ ? Event::Retry : Event::FailOver, holder->text(), failures.back().message);
      Result<Pulled> pulled = from(*holder);
      const Status tried = pulled.ok() ? fill(pulled.value()) : pulled.status();
      if (tried.ok()) return pulled;
      if (failures.size() == kReasonsMax) failures.erase(failures.begin());
      failures.push_back({tried.code, holder->text() + ": " + tried.message, {}});
      if (Status still = patience_.check(); !still.ok())
        return Status{still.code, still.message + "; " + verdict(failures).message, {}};
      if (tried.code == Code::Unreachable && reached_) brokeOff.push_back(holder);
    }
    // Once more, and then for as long as it helps.
    if (brokeOff.empty() || (pass > 0 && verified() == before)) return verdict(failures);
    holders = std::move(brokeOff);
    again_ = true;
    if (Status slept = pause(kAgain, patience_); !slept.ok()) return slept;
  }
}

// A version that arrived here before is not fetched again.
Result<Pulled> Pull::fromOwnStore() const {
  const Status elsewhere{Code::Gone, "not in the own store", {}};
  if (!options_.keepIn || !options_.keepIn->holds(options_.id)) return elsewhere;
  struct Hold {
    std::shared_ptr<VersionStore> store;  // outlives the lease
    VersionArena::Lease lease;
  };
  Result<VersionArena::Lease> lease = options_.keepIn->lease(options_.id);
  if (!lease.ok()) return lease.status();
  if (lease.value().await(0, Milliseconds(0)).state != Arrival::Whole) return elsewhere;
  const auto hold = std::make_shared<const Hold>(Hold{options_.keepIn, std::move(lease.value())});
  Pulled pulled{{}, hold, 0, Via::Memory, options_.keepIn->addresses().front()};
  for (const WantedSection& wanted : options_.wanted) {
    const Section* at = hold->lease.sections().find(wanted.name);
    if (at == nullptr || at->digest != wanted.digest || at->bytes != wanted.bytes) return elsewhere;
    pulled.sections.push_back({hold->lease.data() + at->offset, at->bytes});
    pulled.bytes += at->bytes;
  }
  return pulled;
}

Result<Pulled> Pull::from(const Address& holder) {
  const bool trusted = !mistrusted_;
  Result<Pulled> pulled = tryHolder(holder);
  // A delta that does not fit is no reason to leave the holder: it has the bytes, too.
  if (!pulled.ok() && trusted && mistrusted_) return tryHolder(holder);
  return pulled;
}

void Pull::chooseBase(const Address& holder) {
  base_.reset();
  if (!options_.keepIn || mistrusted_ || holder.kind != Address::Kind::Tcp) return;
  if (!options_.keepIn->deltaChoice().asks(holder.text(), options_.id)) return;
  std::vector<Section> wanted;
  for (const WantedSection& each : options_.wanted) wanted.push_back({each.name, 0, each.bytes, each.digest});
  if (std::optional<DeltaBase> base = DeltaBase::choose(options_.keepIn, wanted)) base_.emplace(std::move(*base));
}

Result<Pulled> Pull::tryHolder(const Address& holder) {
  Result<Holder> reached = Holder::reach(holder, others() && !again_, patience_);
  reached_ = reached.ok() || reached.status().code == Code::Timeout;  // whoever did not say no may yet answer
  if (reached.status().code == Code::Timeout) return Status{Code::Unreachable, "it does not answer", {}};
  if (!reached.ok()) return reached.status();
  chooseBase(holder);
  const Result<std::vector<Section>> sections = request(reached.value(), holder.kind == Address::Kind::Tcp);
  if (!sections.ok()) return sections.status();
  if (Status agreed = agree(sections.value()); !agreed.ok()) return agreed;
  if (holder.kind == Address::Kind::Tcp) return receiveStream(reached.value(), sections.value(), holder.text());
  return mapShared(std::move(reached.value().connection()), sections.value(), holder.text());
}

Result<std::vector<Section>> Pull::request(Holder& holder, bool remote) {
  PullRequest request{verified(), 0, {}};
  for (const WantedSection& wanted : options_.wanted) request.names.push_back(wanted.name);
  if (remote && base_) request.bases = base_->digests();
  return holder.ask({options_.key, options_.job, options_.member, options_.id, std::move(request), others()}, patience_);
}

// What is offered must be what was asked for, before a byte of it moves.
Status Pull::agree(const std::vector<Section>& offered) const {
  if (offered.size() != options_.wanted.size()) return {Code::Corrupt, "other sections than asked for", {}};
  for (size_t i = 0; i < offered.size(); i++) {
    const WantedSection& want = options_.wanted[i];
    if (offered[i].name != want.name) return {Code::Corrupt, "other sections than asked for", {}};
    if (offered[i].bytes == want.bytes && offered[i].digest == want.digest) continue;
    return {Code::DigestMismatch,
            "section \"" + want.name + "\" is offered with " + std::to_string(offered[i].bytes) + " bytes and digest " +
                toHex(offered[i].digest) + ", expected " + std::to_string(want.bytes) + " and " + toHex(want.digest),
            {}};
  }
  return {};
}

Result<Pulled> Pull::mapShared(Connection connection, const std::vector<Section>& sections,
                               const std::string& holder) const {
  struct Hold {
    Connection connection;  // its end tells the holder that nobody reads any more
    Mapping mapping;
  };
  const UniqueFd memory = connection.takeFd();
  if (!memory) return Status{Code::Corrupt, "the holder sent no memory", {}};
  uint64_t end = 0;
  for (const Section& s : sections) {
    if (s.offset > UINT64_MAX - s.bytes) return Status{Code::Corrupt, "a section outside of the address space", {}};
    end = std::max(end, s.offset + s.bytes);
  }
  Result<Mapping> mapping = mapSegment(memory.get(), std::max<uint64_t>(end, 1), Access::ReadOnly);
  if (!mapping.ok()) return mapping.status();
  const uint8_t* from = mapping.value().data();
  Pulled pulled{{}, nullptr, 0, Via::Memory, holder};
  for (const Section& s : sections) {
    pulled.sections.push_back({from + s.offset, s.bytes});
    pulled.bytes += s.bytes;
  }
  pulled.hold = std::make_shared<const Hold>(Hold{std::move(connection), std::move(mapping.value())});
  return pulled;
}

// Copies what was pulled to where it is wanted. Every byte was digested when it was stored where it lies, by the holder of
// this host or by the landing, and nobody can have changed it since.
Status Pull::fill(const Pulled& pulled) const { return copyPieces(pulled.sections, options_.into, patience_); }

Result<Pulled> Pull::receiveStream(Holder& from, const std::vector<Section>& sections, const std::string& holder) {
  if (!landing_) {
    Result<Landing> landing = Landing::open(options_.id, sections, options_.keepIn);
    if (!landing.ok()) return landing.status();
    landing_.emplace(std::move(landing.value()));
  }
  const auto began = Clock::now();
  const uint64_t before = landing_->verified();
  const size_t deltas = deltaBlocks_;
  Status received = receiveAll(from);
  if (received.ok() && options_.keepIn) {
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    options_.keepIn->deltaChoice().learn(holder, deltaBlocks_ > deltas, landing_->total() - before, seconds);
  }
  if (!received.ok()) {
    landing_->rewind();
    return received;
  }
  Landing::Landed landed = landing_->finish();
  return Pulled{std::move(landed.sections), std::move(landed.hold), landing_->total(), Via::Tcp, holder,
                wireBytes_, applied_};
}

Status Pull::receiveAll(Holder& from) {
  Connection& connection = from.connection();
  Starvation starvation(from.name());
  for (;;) {
    const Patience patience = from.streaming(patience_, others());
    if (Status still = patience.check(); !still.ok()) return still;
    const Result<FrameHeader> header = connection.receiveHeader(patience);
    if (!header.ok()) return header.status();
    if (header.value().type == FrameType::Data) {
      if (Status got = receiveData(connection, header.value(), patience); !got.ok()) return got;
      starvation.fed();
      continue;
    }
    if (header.value().type == FrameType::Delta) {
      if (Status got = receiveDelta(from, header.value(), patience); !got.ok()) return got;
      starvation.fed();
      continue;
    }
    const Result<Bytes> payload = connection.receiveSmall(header.value(), patience);
    if (!payload.ok()) return payload.status();
    switch (header.value().type) {
      case FrameType::Refused: return statusOfRefusal(payload.value());
      case FrameType::Alive:
        if (Status starved = starvation.check(); !starved.ok()) return starved;
        continue;
      case FrameType::End:
        if (landing_->verified() == landing_->total()) return {};
        return {Code::Corrupt, "the stream ended early", {}};
      default: return {Code::Corrupt, "a frame out of order", {}};
    }
  }
}

Status Pull::receiveData(Connection& connection, const FrameHeader& header, const Patience& patience) {
  const std::span<uint8_t> into = landing_->next(header.length);
  if (header.offset != landing_->received() || into.size() != header.length || into.empty())
    return {Code::Corrupt, "a chunk at " + std::to_string(header.offset) + " that does not belong there", {}};
  if (Status got = connection.receivePayload(header, into, patience); !got.ok()) return got;
  wireBytes_ += header.length;
  return accept(header.length);
}

Status Pull::accept(uint64_t length) {
  Status accepted = landing_->accept(length);
  if (options_.onProgress) options_.onProgress(landing_->verified(), landing_->total());
  return accepted;
}

// The block is made in the slot of the new version; the base stays as it is. What is not the block announced does not count.
Status Pull::receiveDelta(Holder& from, const FrameHeader& header, const Patience& patience) {
  Bytes payload(header.length);
  if (Status got = from.connection().receivePayload(header, payload, patience); !got.ok()) return got;
  const std::optional<Landing::Block> block = landing_->nextBlock();
  if (!base_ || !block || header.offset != landing_->received())
    return {Code::Corrupt, "a delta at " + std::to_string(header.offset) + " that does not belong there", {}};
  Status made = base_->rebuild(payload, block->section, block->index, landing_->next(block->bytes));
  if (made.ok()) made = accept(block->bytes);
  mistrusted_ = !made.ok();
  if (mistrusted_) {
    activity().note(Event::DeltaLost, from.name(), made.message);
    return made;
  }
  wireBytes_ += header.length;
  deltaBlocks_++;
  applied_ = base_->id();
  const DeltaLog::Edge edge{base_->digests()[block->section], options_.wanted[block->section].digest};
  if (DeltaLog::Block only = onlyStepOf(payload)) options_.keepIn->deltas().put(edge, {block->index, block->count}, std::move(only), options_.id);
  return {};
}

}  // namespace

Status copyPieces(std::span<const ByteView> from, std::span<const std::span<uint8_t>> into, const Patience& patience) {
  std::vector<size_t> sizes;
  for (const std::span<uint8_t>& piece : into) sizes.push_back(piece.size());
  const size_t whole = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  const auto copy = [&](const PieceBlock& block) {
    streamCopyPart({into[block.piece].data() + block.at, from[block.piece].data() + block.at, block.bytes}, whole);
  };
  return forEachBlock(sizes, copy, [&] { return patience.check(); });
}

Result<Pulled> pull(const PullOptions& options, const Patience& patience) { return Pull(options, patience).run(); }

}  // namespace muster
