#include "core/holder.h"

#include <algorithm>

namespace muster {

namespace {

// Holders that have nothing to send say so every 50 ms.
constexpr Milliseconds kSilence{500};
constexpr Milliseconds kConnectHasty{500};
constexpr Milliseconds kConnect{1'500};  // a lost first packet is sent again after a second
constexpr Milliseconds kRetransmission{200};  // at least: TCP_RTO_MIN of Linux. A frozen holder is silent like a lost packet, so it is left no sooner
constexpr Milliseconds kLate{20};

}  // namespace

Milliseconds silenceOf(Milliseconds roundTrip) {
  const Milliseconds silence = roundTrip + std::max(kRetransmission, 2 * roundTrip) + roundTrip + kLate;
  return std::min(silence, kStarved);
}

Holder::Holder(UniqueFd socket) : connection_(std::move(socket)) { roundTrip_ = roundTripOf(connection_.fd()); }

Result<Holder> Holder::reach(const Address& address, bool hasty, const Patience& patience) {
  const Deadline until = Deadline::in(hasty ? kConnectHasty : kConnect);
  Result<UniqueFd> socket = connectTo(address, {patience.deadline.earlier(until), patience.abort});
  if (!socket.ok()) return socket.status();
  return Holder(std::move(socket.value()));
}

Patience Holder::answering(const Patience& patience) const {
  return {patience.deadline, patience.abort, std::max(kSilence, silenceOf(roundTrip_))};
}

Patience Holder::streaming(const Patience& patience, bool others) const {
  const Milliseconds silence = silenceOf(std::max(roundTrip_, roundTripOf(connection_.fd())));
  return {patience.deadline, patience.abort, others ? silence : std::max(kSilence, silence)};
}

Result<std::vector<Section>> Holder::ask(const Question& question, const Patience& patience) {
  const auto began = Clock::now();
  if (Status greeted = greet(connection_, question.key, question.hello, answering(patience)); !greeted.ok()) return greeted;
  // One round trip. What answers for the network counts as well: a proxy, or a holder that gets little time.
  roundTrip_ = std::max(roundTrip_, std::chrono::ceil<Milliseconds>(Clock::now() - began));
  const Patience answers = answering(patience);
  if (Status sent = connection_.send({FrameType::Request, encodeRequest(question.request)}, answers); !sent.ok()) return sent;
  uint64_t watermark = 0;  // none while the version is still being published, which takes as long as it takes
  Starvation starvation;
  const auto onAlive = [&](uint64_t reached) -> Status {
    if (reached > watermark) starvation.fed();
    watermark = std::max(watermark, reached);
    return watermark > 0 && question.others ? starvation.check() : Status{};
  };
  const Result<Bytes> grant = connection_.receive(FrameType::Grant, answers, kGrantBytesMax, onAlive);
  if (!grant.ok()) return grant.status();
  return decodeSections(grant.value());
}

Status Starvation::check() const {
  if (Clock::now() - since_ <= kStarved) return {};
  return {Code::Unreachable, "it gets no bytes itself", {}};
}

}  // namespace muster
