#include "core/holder.h"

#include <algorithm>

#include "core/activity.h"

namespace muster {

Milliseconds silenceOf(Milliseconds roundTrip) {
  const Milliseconds silence = roundTrip + std::max(kRetransmission, 2 * roundTrip) + roundTrip + kLate;
  return std::min(silence, network().starved);
}

Holder::Holder(UniqueFd socket, std::string name) : name_(std::move(name)), connection_(std::move(socket)) { roundTrip_ = roundTripOf(connection_.fd()); }

Result<Holder> Holder::reach(const Address& address, bool hasty, const Patience& patience) {
  const Deadline until = Deadline::in(hasty ? network().answer : network().connect);
  Result<UniqueFd> socket = connectTo(address, {patience.deadline.earlier(until), patience.abort});
  if (!socket.ok()) return socket.status();
  return Holder(std::move(socket.value()), address.text());
}

Patience Holder::answering(const Patience& patience) const {
  return {patience.deadline, patience.abort, std::max(network().answer, silenceOf(roundTrip_))};
}

Patience Holder::streaming(const Patience& patience, bool others) const {
  const Milliseconds silence = silenceOf(std::max(roundTrip_, roundTripOf(connection_.fd())));
  return {patience.deadline, patience.abort, others ? silence : std::max(network().answer, silence)};
}

Result<std::vector<Section>> Holder::ask(const Question& question, const Patience& patience) {
  const auto began = Clock::now();
  const Hello hello{Purpose::Pull, question.job, question.member, encodeId(question.id)};
  if (Status greeted = greet(connection_, question.key, hello, answering(patience)); !greeted.ok()) return greeted;
  // One round trip. What answers for the network counts as well: a proxy, or a holder that gets little time.
  roundTrip_ = std::max(roundTrip_, std::chrono::ceil<Milliseconds>(Clock::now() - began));
  const Patience answers = answering(patience);
  PullRequest request = question.request;
  request.timeoutMs = static_cast<uint32_t>(patience.deadline.remainingMs());
  if (Status sent = connection_.send({FrameType::Request, encodeRequest(request)}, answers); !sent.ok()) return sent;
  uint64_t watermark = 0;  // none while the version is still being published, which takes as long as it takes
  Starvation starvation(name_);
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
  if (Clock::now() - since_ <= network().starved) return {};
  activity().note(Event::Stall, peer_, "it gets no bytes itself");
  return {Code::Unreachable, "it gets no bytes itself", {}};
}

}  // namespace muster
