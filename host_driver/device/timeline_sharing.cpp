// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/timeline_sharing.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace svp {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

TimelineToken new_token() {
  std::random_device random;
  TimelineToken token;
  for (std::byte& byte : token) byte = static_cast<std::byte>(random());
  return token;
}

}  // namespace

std::string to_text(const TimelineToken& token) {
  std::string text;
  for (const std::byte byte : token) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::optional<TimelineToken> token_from(std::string_view text) {
  TimelineToken token{};
  if (text.size() != 2 * token.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    token[i / 2] = token[i / 2] << 4 | static_cast<std::byte>(digit);
  }
  return token;
}

TimelineToken TimelineOffers::offer(const Timeline& timeline) {
  const std::lock_guard lock(mutex_);
  std::deque<Offer>& of_function = offers_[timeline.function];
  if (!of_function.empty() && of_function.back().timeline.generation != timeline.generation) of_function.clear();
  const auto known = std::ranges::find(of_function, timeline, &Offer::timeline);
  if (known != of_function.end()) return known->token;
  if (of_function.size() == kMostTimelines) of_function.pop_front();
  of_function.push_back({timeline, new_token()});
  return of_function.back().token;
}

std::optional<Timeline> TimelineOffers::find(const TimelineToken& token) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [function, of_function] : offers_) {
    const auto found = std::ranges::find(of_function, token, &Offer::token);
    if (found != of_function.end()) return found->timeline;
  }
  return std::nullopt;
}

void TimelineOffers::forget(wire::Target function) {
  const std::lock_guard lock(mutex_);
  offers_.erase(function);
}

void TimelineOffers::clear() {
  const std::lock_guard lock(mutex_);
  offers_.clear();
}

Expected<TimelineGrant> grant_timeline(Device& management, const Timeline& timeline, wire::Target grantee,
                                       std::uint64_t grantee_generation) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::EventGrant;
  request.arguments.event_grant = {.owner = timeline.function,
                                   .grantee = grantee,
                                   .stream = timeline.stream,
                                   .incarnation = timeline.incarnation,
                                   .owner_generation = timeline.generation,
                                   .grantee_generation = grantee_generation};
  const auto reply = management.admin(request);
  if (!reply) return std::unexpected(reply.error());
  if (reply->outcome == wire::Outcome::Ok) {
    return TimelineGrant{reply->values.event_grant.grant, reply->values.event_grant.epoch};
  }
  std::string message =
      "EVENT_GRANT ended " + std::string(wire::name(reply->outcome)) + ": " + std::string(wire::name(reply->status));
  if (reply->field != wire::Field::None) message += " in " + std::string(wire::name(reply->field));
  const bool full = reply->status == wire::Status::OutOfGrants;
  return std::unexpected(
      ErrorInfo{.layer = Layer::Firmware,
                .source = "event",
                .outcome = reply->outcome,
                .recoverable = true,
                .next_step = full ? "wait for streams of fewer other functions, or recover() the context at the "
                                    "function reset"
                                  : "record the event again, and share it again",
                .message = std::move(message),
                .status = reply->status});
}

ErrorInfo unknown_timeline() {
  ErrorInfo error = refused_by_driver(
      "event",
      "the event is of another card, or nobody has shared it on this one, or its stream's function was reset since",
      "wait for an event of another card on the host (Synchronize()); else record the event again, and share it again");
  error.status = wire::Status::UnknownGrant;
  return error;
}

}  // namespace svp
