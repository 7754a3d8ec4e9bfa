#include "core/pull.h"

#include <algorithm>

#include "core/handshake.h"
#include "core/shared_memory.h"
#include "core/xxh64.h"
#include "cpu/stream_copy.h"

namespace muster {

namespace {

constexpr Milliseconds kConnect{1'000};
constexpr Milliseconds kSilence{500};  // holders that have nothing to send say so every 100 ms
constexpr int kPasses = 2;

Result<uint64_t> digestWithin(ByteView bytes, const Patience& patience) {
  BlockDigest digest;
  while (!bytes.empty()) {
    if (Status still = patience.check(); !still.ok()) return still;
    const ByteView block = bytes.first(std::min(bytes.size(), BlockDigest::kBlockBytes));
    digest.add(block);
    bytes = bytes.subspan(block.size());
  }
  return digest.root();
}

class Pull {
 public:
  Pull(const PullOptions& options, const Patience& patience)
      : options_(options), patience_{patience.deadline, patience.abort, kSilence} {
    for (const PullTarget& target : options.targets) total_ += target.into.size();
  }

  Result<PullResult> run();

 private:
  Status from(const Address& holder);
  Result<std::vector<Section>> request(Connection& connection);
  Status agree(const std::vector<Section>& offered) const;
  Status copyMapped(int fd, const std::vector<Section>& sections);
  Status receiveStream(Connection& connection, const std::string& holder);
  Status receiveChunk(Connection& connection, const FrameHeader& header);
  Status copyStaged(const std::string& holder);
  Status verify(const std::vector<ByteView>& sources) const;
  void deliver(const std::vector<ByteView>& sources) const;
  Status verdict(const std::vector<Status>& failures) const;

  const PullOptions& options_;
  const Patience patience_;
  uint64_t total_ = 0;
  bool answered_ = false;       // by the holder tried last: worth a second try when it breaks off
  Mapping staging_;             // the TCP stream so far …
  uint64_t received_ = 0;       // … and how much of it
  std::string streamed_;        // the only holder it came from, or empty when several
};

Result<PullResult> Pull::run() {
  std::vector<const Address*> holders;
  for (const Address& holder : options_.holders) holders.push_back(&holder);
  std::vector<Status> failures;
  for (int pass = 0; pass < kPasses; pass++) {
    std::vector<const Address*> again;
    for (const Address* holder : holders) {
      Status tried = from(*holder);
      if (tried.ok()) {
        const Via via = holder->kind == Address::Kind::Unix ? Via::Memory : Via::Tcp;
        return PullResult{total_, via, holder->text()};
      }
      if (Status still = patience_.check(); !still.ok()) {
        failures.push_back({tried.code, holder->text() + ": " + tried.message, {}});
        return Status{still.code, still.message + "; " + verdict(failures).message, {}};
      }
      if (tried.code == Code::Unreachable && answered_) again.push_back(holder);
      failures.push_back({tried.code, holder->text() + ": " + tried.message, {}});
    }
    holders = again;
  }
  return verdict(failures);
}

Status Pull::verdict(const std::vector<Status>& failures) const {
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

Status Pull::from(const Address& holder) {
  answered_ = false;
  Result<UniqueFd> socket = connectTo(holder, patience_.within(kConnect));
  if (!socket.ok()) return socket.status();
  Connection connection(std::move(socket.value()));
  const Result<std::vector<Section>> sections = request(connection);
  if (!sections.ok()) return sections.status();
  answered_ = true;
  if (Status agreed = agree(sections.value()); !agreed.ok()) return agreed;
  if (holder.kind == Address::Kind::Tcp) return receiveStream(connection, holder.text());

  const UniqueFd memory = connection.takeFd();
  if (!memory) return {Code::Corrupt, "the holder sent no memory", {}};
  // The connection outlives the mapping: closing it tells the holder that nobody reads any more.
  return copyMapped(memory.get(), sections.value());
}

Result<std::vector<Section>> Pull::request(Connection& connection) {
  const Hello hello{Purpose::Pull, options_.job, options_.member, encodeId(options_.id)};
  if (Status greeted = greet(connection, options_.key, hello, patience_); !greeted.ok()) return greeted;
  PullRequest request{received_, static_cast<uint32_t>(patience_.deadline.remainingMs()), {}};
  for (const PullTarget& target : options_.targets) request.names.push_back(target.name);
  if (Status sent = connection.send({FrameType::Request, encodeRequest(request)}, patience_); !sent.ok()) return sent;
  const Result<Bytes> grant = connection.receive(FrameType::Grant, patience_);
  if (!grant.ok()) return grant.status();
  return decodeSections(grant.value());
}

// What is offered must be what was asked for, before a byte of it moves.
Status Pull::agree(const std::vector<Section>& offered) const {
  if (offered.size() != options_.targets.size()) return {Code::Corrupt, "other sections than asked for", {}};
  for (size_t i = 0; i < offered.size(); i++) {
    const PullTarget& want = options_.targets[i];
    if (offered[i].name != want.name) return {Code::Corrupt, "other sections than asked for", {}};
    if (offered[i].bytes == want.into.size() && offered[i].digest == want.digest) continue;
    return {Code::DigestMismatch,
            "section \"" + want.name + "\" is offered with " + std::to_string(offered[i].bytes) + " bytes and digest " +
                toHex(offered[i].digest) + ", expected " + std::to_string(want.into.size()) + " and " +
                toHex(want.digest),
            {}};
  }
  return {};
}

Status Pull::copyMapped(int fd, const std::vector<Section>& sections) {
  uint64_t end = 0;
  for (const Section& s : sections) {
    if (s.offset > UINT64_MAX - s.bytes) return {Code::Corrupt, "a section outside of the address space", {}};
    end = std::max(end, s.offset + s.bytes);
  }
  const Result<Mapping> mapping = mapSegment(fd, std::max<uint64_t>(end, 1), Access::ReadOnly);
  if (!mapping.ok()) return mapping.status();
  std::vector<ByteView> sources;
  for (const Section& s : sections) sources.push_back({mapping.value().data() + s.offset, s.bytes});
  if (Status verified = verify(sources); !verified.ok()) return verified;
  deliver(sources);
  return {};
}

Status Pull::receiveStream(Connection& connection, const std::string& holder) {
  if (staging_.data() == nullptr) {
    Result<Mapping> staging = mapPrivate(std::max<uint64_t>(total_, 1));
    if (!staging.ok()) return staging.status();
    staging_ = std::move(staging.value());
  }
  if (received_ == 0) streamed_ = holder;
  for (;;) {
    if (Status still = patience_.check(); !still.ok()) return still;
    const Result<FrameHeader> header = connection.receiveHeader(patience_);
    if (!header.ok()) return header.status();
    if (header.value().type == FrameType::Data) {
      if (Status got = receiveChunk(connection, header.value()); !got.ok()) return got;
      if (streamed_ != holder) streamed_.clear();
      continue;
    }
    Bytes payload(header.value().length);
    if (Status got = connection.receivePayload(header.value(), payload, patience_); !got.ok()) return got;
    if (header.value().type == FrameType::Refused) return statusOfRefusal(payload);
    if (header.value().type != FrameType::End) continue;  // Alive
    if (received_ != total_) return {Code::Corrupt, "the stream ended early", {}};
    return copyStaged(holder);
  }
}

Status Pull::receiveChunk(Connection& connection, const FrameHeader& header) {
  if (header.offset != received_ || header.length > total_ - received_)
    return {Code::Corrupt, "a chunk at " + std::to_string(header.offset) + ", expected " + std::to_string(received_), {}};
  const std::span<uint8_t> into(staging_.data() + received_, header.length);
  const Status got = connection.receivePayload(header, into, patience_);
  if (got.ok()) received_ += header.length;
  return got;
}

Status Pull::copyStaged(const std::string& holder) {
  std::vector<ByteView> sources;
  uint64_t start = 0;
  for (const PullTarget& target : options_.targets) {
    sources.push_back({staging_.data() + start, target.into.size()});
    start += target.into.size();
  }
  if (Status verified = verify(sources); !verified.ok()) {
    received_ = 0;
    // Bytes of several holders blame none of them; this one may still give a whole version.
    if (streamed_ != holder && verified.code == Code::DigestMismatch)
      return {Code::Unreachable, "the parts of several holders do not fit: " + verified.message, {}};
    return verified;
  }
  deliver(sources);
  return {};
}

Status Pull::verify(const std::vector<ByteView>& sources) const {
  for (size_t i = 0; i < sources.size(); i++) {
    const Result<uint64_t> digest = digestWithin(sources[i], patience_);
    if (!digest.ok()) return digest.status();
    const PullTarget& want = options_.targets[i];
    if (digest.value() == want.digest) continue;
    return {Code::DigestMismatch,
            "section \"" + want.name + "\" has digest " + toHex(digest.value()) + ", expected " + toHex(want.digest),
            {}};
  }
  return {};
}

void Pull::deliver(const std::vector<ByteView>& sources) const {
  for (size_t i = 0; i < sources.size(); i++)
    streamCopy(options_.targets[i].into.data(), sources[i].data(), sources[i].size());
}

}  // namespace

Result<PullResult> pull(const PullOptions& options, const Patience& patience) { return Pull(options, patience).run(); }

}  // namespace muster
