#include "core/version_server.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/block_digest.h"
#include "core/handshake.h"

namespace muster {

namespace {

// The sections asked for, in the order asked for.
Result<std::vector<Section>> choose(const SectionTable& all, const std::vector<std::string>& names) {
  std::vector<Section> chosen;
  for (const std::string& name : names) {
    const Section* at = all.find(name);
    if (at == nullptr) return Status{Code::Gone, "the version has no section \"" + name + "\"", {}};
    chosen.push_back(*at);
  }
  return chosen;
}

// How many bytes of the concatenation of `sections` are there, one after another from its beginning.
uint64_t available(const std::vector<Section>& sections, const Progress& progress) {
  uint64_t there = 0;
  for (const Section& section : sections) {
    const uint64_t reached = progress.watermark > section.offset ? progress.watermark - section.offset : 0;
    const uint64_t part = progress.state == Arrival::Whole ? section.bytes : std::min(section.bytes, reached);
    there += part;
    if (part < section.bytes) break;
  }
  return there;
}

// A reader's place, as long as it is served.
class Seat {
 public:
  explicit Seat(std::atomic<size_t>& taken) : taken_(taken), number_(++taken) {}
  ~Seat() { taken_--; }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  size_t number() const { return number_; }

 private:
  std::atomic<size_t>& taken_;
  const size_t number_;
};

Status givenUp() { return {Code::Unreachable, "the version stopped arriving here; try another holder", {}}; }

}  // namespace

VersionServer::VersionServer(VersionArena& arena, DeltaLog& deltas, MeshListener& listener, ServerIdentity identity, UnixListener local,
                             std::optional<TcpListener> remote)
    : arena_(arena),
      deltas_(deltas),
      listener_(listener),
      identity_(std::move(identity)),
      local_(std::move(local)),
      remote_(std::move(remote)),
      guests_([this](Guest& guest, Connection connection) { serve(guest, std::move(connection)); }),
      acceptor_([this] { acceptLoop(); }) {}

VersionServer::~VersionServer() {
  closing_.request();
  acceptor_.join();
}

void VersionServer::acceptLoop() {
  while (!closing_.requested()) {
    pollfd watched[3] = {{closing_.fd(), POLLIN, 0}, {local_.fd(), POLLIN, 0}, {remote_ ? remote_->fd.get() : -1, POLLIN, 0}};
    if (::poll(watched, 3, static_cast<int>(network().alive.count())) < 0) continue;
    guests_.reap();
    if (watched[1].revents != 0) acceptOne(local_.fd(), Address::Kind::Unix);
    if (watched[2].revents != 0) acceptOne(remote_->fd.get(), Address::Kind::Tcp);
  }
  local_.close();
  guests_.end();
}

void VersionServer::acceptOne(int listener, Address::Kind kind) {
  Result<UniqueFd> socket = acceptPatiently(listener, kind, {Deadline::in(network().handshake), &closing_});
  if (socket.ok()) guests_.take(std::move(socket.value()), kind);
}

void VersionServer::serve(Guest& guest, Connection connection) {
  const Patience patience{Deadline::in(network().handshake), &guest.leaving()};
  try {
    const Status answered = answer(guest, connection, patience);
    const std::string from = peerOf(connection.fd());
    if (answered.code == Code::Refused || answered.code == Code::Corrupt) activity().note(Event::Refused, from, answered.message);
    if (answered.code == Code::Timeout) activity().note(Event::Stall, from, "a caller took or said nothing for too long");
    const Status told = answered.code == Code::Aborted ? Status{Code::Unreachable, "it serves others now; try another holder", {}} : answered;
    if (!told.ok() && answered.code != Code::Unreachable) connection.refuse(told, patience);
  } catch (const std::exception& error) {
    connection.refuse({Code::Io, error.what(), {}}, patience);
  }
}

Status VersionServer::answer(Guest& guest, Connection& connection, const Patience& patience) {
  const Result<Hello> hello = welcome(connection, identity_.key, patience);
  if (!hello.ok()) return hello.status();
  if (!guest.proved()) return {Code::Unreachable, "evicted", {}};
  if (hello.value().purpose == Purpose::Mesh && hello.value().job == identity_.job)
    return listener_.offer(ByteReader(hello.value().body).number<uint64_t>(), hello.value(), connection);
  // Read all that the caller has to say before a refusal: closing on unread bytes would reset the connection, and the
  // refusal with it.
  const Result<Bytes> payload = connection.receive(FrameType::Request, patience);
  if (!payload.ok()) return payload.status();
  const Seat seat(readers_);
  if (seat.number() > kReadersMax) {
    activity().note(Event::Refused, peerOf(connection.fd()), "too many readers");
    connection.refuse({Code::Unreachable, "too many readers; try another holder", {}}, patience);
    return {};
  }
  if (hello.value().purpose != Purpose::Pull) return {Code::Refused, "this is a version store", {}};
  if (hello.value().job != identity_.job) return {Code::Refused, "this store serves another job", {}};
  const Result<VersionId> id = decodeId(hello.value().body);
  if (!id.ok()) return id.status();
  const Result<PullRequest> request = decodeRequest(payload.value());
  if (!request.ok()) return request.status();

  const Milliseconds asked{request.value().timeoutMs};
  const Patience whole{Deadline::in(std::min(asked, kWaitMax)), &guest.leaving()};
  Result<VersionArena::Lease> lease = awaitLease(connection, id.value(), whole);
  if (!lease.ok()) return lease.status();
  const Result<std::vector<Section>> sections = choose(lease.value().sections(), request.value().names);
  if (!sections.ok()) return sections.status();
  if (guest.kind() == Address::Kind::Unix) return hold(connection, lease.value(), sections.value(), whole);
  return stream({guest.leaving(), connection, lease.value(), sections.value(), request.value(), id.value()});
}

Result<VersionArena::Lease> VersionServer::awaitLease(Connection& connection, VersionId id, const Patience& patience) {
  const Deadline giveUp = Deadline::in(kMayCome);
  for (;;) {
    Result<VersionArena::Lease> lease = arena_.lease(id, network().alive);
    const Code code = lease.status().code;
    const bool mayCome = code == Code::Gone && arena_.mayCome(id) && !giveUp.passed();
    if (code != Code::Timeout && !mayCome) return lease;
    if (Status still = patience.check(); !still.ok()) return still;
    if (Status sent = connection.send({FrameType::Alive}, patience); !sent.ok()) return sent;
  }
}

Status VersionServer::awaitWhole(Connection& connection, const VersionArena::Lease& lease, const Patience& patience) {
  for (Progress progress = lease.await(0, Milliseconds(0)); progress.state != Arrival::Whole;) {
    if (progress.state == Arrival::Ended) return givenUp();
    if (Status still = patience.check(); !still.ok()) return still;
    if (Status sent = connection.send({FrameType::Alive, {}, progress.watermark}, patience); !sent.ok()) return sent;
    progress = lease.await(UINT64_MAX, network().alive);
  }
  return {};
}

Status VersionServer::hold(Connection& connection, VersionArena::Lease& lease, const std::vector<Section>& sections,
                           const Patience& patience) {
  if (Status whole = awaitWhole(connection, lease, patience); !whole.ok()) return whole;
  const Bytes grant = encodeSections(sections);
  lease.abandon();  // from here the reader has the memory, until it says otherwise
  const Status sent = connection.send({FrameType::Grant, grant, 0, lease.fd()}, patience);
  if (!sent.ok()) return sent;
  // It has the memory as long as it keeps the connection, however short its pull was.
  const Result<Bytes> end = connection.receive(FrameType::End, {Deadline::in(identity_.holdMax), patience.abort});
  // A closed socket proves that the reader is gone, and its mapping with it; so does its word.
  if (end.ok() || end.status().code == Code::Unreachable) lease.reclaim();
  return {};
}

Status VersionServer::stream(const Reading& reading) {
  const auto& [leaving, connection, lease, sections, request, id] = reading;
  if (Status sent = connection.send({FrameType::Grant, encodeSections(sections)}, reading.stalling()); !sent.ok()) return sent;
  uint64_t total = 0;
  for (const Section& section : sections) total += section.bytes;
  if (request.offset > total) return {Code::InvalidArgument, "the offset lies behind the end", {}};
  std::vector<ByteRange> ranges = request.ranges;
  if (ranges.empty()) ranges.push_back({request.offset, total - request.offset});
  for (const ByteRange& range : ranges) {
    if (range.offset > total || range.bytes > total - range.offset)
      return {Code::InvalidArgument, "a range lies behind the end", {}};
    if (Status sent = sendRange(reading, range); !sent.ok()) return sent;
  }
  return connection.send({FrameType::End}, reading.stalling());
}

Status VersionServer::sendRange(const Reading& reading, ByteRange range) {
  const auto& [leaving, connection, lease, sections, request, id] = reading;
  DeltaSource source(arena_, deltas_, id);
  Progress progress = lease.await(0, Milliseconds(0));
  uint64_t offset = range.offset;
  uint64_t start = 0;  // of the section, in the stream
  for (size_t i = 0; i < sections.size(); i++) {
    const Section& section = sections[i];
    const uint64_t end = std::min(start + section.bytes, range.offset + range.bytes);
    if (offset < end) source.begin(section, request.bases.empty() ? std::nullopt : std::optional(request.bases[i]));
    while (offset < end) {
      const uint64_t there = available(sections, progress);
      if (there <= offset) {
        progress = lease.await(progress.watermark, network().alive);
        if (progress.state == Arrival::Ended) return givenUp();
        if (available(sections, progress) > offset) continue;
        if (Status sent = connection.send({FrameType::Alive, {}, there}, reading.stalling()); !sent.ok()) return sent;
        continue;
      }
      const uint64_t at = offset - start;
      const uint8_t* from = lease.data() + section.offset + at;
      const uint64_t block = std::min<uint64_t>(BlockDigest::kBlockBytes, section.bytes - at);
      if (at % BlockDigest::kBlockBytes == 0 && block <= std::min(end, there) - offset) {
        if (const auto delta = source.payload(at / BlockDigest::kBlockBytes, {from, block})) {
          if (Status sent = connection.send({FrameType::Delta, *delta, offset}, reading.stalling()); !sent.ok()) return sent;
          offset += block;
          continue;
        }
      }
      const ByteView chunk{from, std::min({kStreamBytes, end - offset, there - offset})};
      if (Status sent = connection.send({FrameType::Data, chunk, offset}, reading.stalling()); !sent.ok()) return sent;
      offset += chunk.size();
    }
    start += section.bytes;
  }
  return {};
}

}  // namespace muster
