// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/broker_message.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "host_driver/base/strict_json.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/version.hpp"
#include "shared/window.hpp"

namespace svp {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxName = 32;
constexpr std::size_t kMaxFileName = 1024;
constexpr std::size_t kMaxErrorText = 1024;  // as sent, before escapes
constexpr std::uint64_t kLastStatus = std::numeric_limits<std::uint16_t>::max();
constexpr wire::Target kLastTarget = wire::target_of_virtual(wire::boot::kMaxVirtualFunctions);

constexpr std::array kLayers{Layer::Driver, Layer::Transport, Layer::Firmware,
                             Layer::Core,   Layer::Memory,    Layer::Emulator};

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

ErrorInfo refused_message(const BadMember& bad) {
  return {.layer = Layer::Driver,
          .source = bad.path,
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "use the same version of the program for broker and tenant",
          .message = bad.path + " " + bad.what};
}

ErrorInfo other_version(std::uint64_t theirs) {
  return {.layer = Layer::Driver,
          .source = "request.abi",
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = "use the same version of the program for broker and tenant",
          .message = "ABI versions differ: the tenant has " + std::to_string(theirs) + ", the card " +
                     std::to_string(wire::kAbiVersion)};
}

BrokerRequest read_hello(StrictObject& object) {
  const std::uint64_t abi = object.number("abi", kAnyNumber);
  if (abi != wire::kAbiVersion) throw other_version(abi);
  auto want = parse_function_choice(object.text("want", kMaxName));
  if (!want) object.refuse("want", "names no function: " + want.error().next_step);
  object.finish();
  return HelloRequest{wire::kAbiVersion, *want};
}

wire::Target read_owned_target(StrictObject& object) {
  const auto target = static_cast<wire::Target>(object.number("target", kLastTarget));
  if (target < wire::kTargetPhysical) object.refuse("target", "is not a function that has owners");
  return target;
}

std::uint32_t read_stream(StrictObject& object) {
  return static_cast<std::uint32_t>(object.number("stream", wire::kStreamsPerFunction - 1));
}

OfferTimelineRequest read_offer(StrictObject& object) {
  Timeline timeline;
  timeline.function = read_owned_target(object);
  timeline.generation = object.number("generation", kAnyNumber);
  timeline.stream = read_stream(object);
  timeline.incarnation =
      static_cast<std::uint32_t>(object.number("incarnation", std::numeric_limits<std::uint32_t>::max()));
  return {timeline};
}

TimelineToken read_token(StrictObject& object) {
  const auto token = token_from(object.text("token", kMaxName));
  if (!token) object.refuse("token", "is no token of 32 hexadecimal digits");
  return *token;
}

RedeemTimelineRequest read_redemption(StrictObject& object) {
  RedeemTimelineRequest request;
  request.target = read_owned_target(object);
  request.generation = object.number("generation", kAnyNumber);
  request.token = read_token(object);
  return request;
}

BrokerRequest read_request(const Json& json) {
  StrictObject object(json, "request");
  const std::string type = object.text("type", kMaxName);
  if (type == "hello") return read_hello(object);
  BrokerRequest request;
  if (type == "describe") {
    request = DescribeRequest{};
  } else if (type == "reset") {
    request = ResetRequest{read_owned_target(object)};
  } else if (type == "raise") {
    const auto level = level_named(object.text("level", kMaxName));
    if (level != ResetLevel::Firmware && level != ResetLevel::Card)
      object.refuse("level", "is not one that a broker is asked for");
    request = RaiseRequest{*level};
  } else if (type == "power-cycle") {
    request = PowerCycleRequest{};
  } else if (type == "stop") {
    request = StopRequest{};
  } else if (type == "collect") {
    CollectRequest collect{object.text("file", kMaxFileName), object.boolean("now")};
    if (!collect.file.starts_with('/')) object.refuse("file", "is no absolute path");
    request = std::move(collect);
  } else if (type == "debug") {
    request = DebugRequest{object.boolean("offer")};
  } else if (type == "held") {
    request = HeldRequest{};
  } else if (type == "statistics") {
    request = StatisticsRequest{read_owned_target(object)};
  } else if (type == "offer-timeline") {
    request = read_offer(object);
  } else if (type == "redeem-timeline") {
    request = read_redemption(object);
  } else if (type == "proof") {
    request = ProofRequest{object.number("nonce", kAnyNumber)};
  } else {
    object.refuse("type", "is not known");
  }
  object.finish();
  return request;
}

Grant read_grant(StrictObject& object) {
  Grant grant;
  grant.card = object.text("card", kMaxCardName);
  if (!check_card_name(grant.card)) object.refuse("card", "is not a card's name");
  grant.target = read_owned_target(object);
  grant.slot = static_cast<unsigned>(object.number("slot", kMostSlots - 1));
  if (grant.slot == 0) object.refuse("slot", "is the management function's");
  grant.window_bytes = object.number("window_bytes", wire::kMaxWindowBytes);
  grant.generation = object.number("generation", kAnyNumber);
  grant.boot_epoch = object.number("boot_epoch", kAnyNumber);
  grant.quota_bytes = object.number("quota_bytes", kAnyNumber);
  return grant;
}

FunctionStatistics read_statistics(StrictObject& object) {
  FunctionStatistics statistics;
  statistics.target = read_owned_target(object);
  for (const StatisticsMember& member : kStatisticsMembers) {
    statistics.*member.value = object.number(member.name, kAnyNumber);
  }
  return statistics;
}

Json statistics_json(const FunctionStatistics& statistics) {
  Json json{{"type", "statistics"}, {"target", statistics.target}};
  for (const StatisticsMember& member : kStatisticsMembers) json[member.name] = statistics.*member.value;
  return json;
}

ErrorInfo read_error(const Json& json) {
  StrictObject object(json, "reply.error");
  ErrorInfo error;
  const std::string layer = object.text("layer", kMaxName);
  const auto known = std::ranges::find_if(kLayers, [&](Layer l) { return name(l) == layer; });
  if (known == kLayers.end()) object.refuse("layer", "is not known");
  error.layer = *known;
  error.source = object.text("source", kMaxBrokerMessage);
  error.outcome =
      static_cast<wire::Outcome>(object.number("outcome", static_cast<std::uint64_t>(wire::Outcome::Indeterminate)));
  error.recoverable = object.boolean("recoverable");
  error.next_step = object.text("next_step", kMaxBrokerMessage);
  error.message = object.text("message", kMaxBrokerMessage);
  error.status = static_cast<wire::Status>(object.number("status", kLastStatus));
  object.finish();
  return error;
}

BrokerReply read_reply(const Json& json) {
  StrictObject object(json, "reply");
  const std::string type = object.text("type", kMaxName);
  BrokerReply reply;
  if (type == "granted") {
    reply = read_grant(object);
  } else if (type == "card") {
    auto card = parse_card_description(dump(object.member("card")));
    if (!card) throw std::move(card.error());
    reply = *std::move(card);
  } else if (type == "done") {
    reply = Done{object.text("how", kMaxBrokerMessage)};
  } else if (type == "statistics") {
    reply = read_statistics(object);
  } else if (type == "offered") {
    reply = TimelineOffered{read_token(object)};
  } else if (type == "timeline-granted") {
    TimelineGrant grant;
    grant.grant = static_cast<std::uint32_t>(object.number("grant", wire::kGrantsPerFunction - 1));
    grant.epoch = object.number("epoch", kAnyNumber);
    reply = grant;
  } else if (type == "held") {
    reply = Held{object.boolean("by_debugger")};
  } else if (type == "late") {
    reply = Late{};
  } else if (type == "prove") {
    reply = Prove{object.number("nonce", kAnyNumber)};
  } else if (type == "refused") {
    reply = read_error(object.member("error"));
  } else {
    object.refuse("type", "is not known");
  }
  object.finish();
  return reply;
}

std::string encode_error(const ErrorInfo& error, std::size_t text_bytes) {
  const auto cut = [&](const std::string& text) { return text.substr(0, text_bytes); };
  const Json json{{"type", "refused"},
                  {"error",
                   {{"layer", name(error.layer)},
                    {"source", cut(error.source)},
                    {"outcome", static_cast<unsigned>(error.outcome)},
                    {"recoverable", error.recoverable},
                    {"next_step", cut(error.next_step)},
                    {"message", cut(error.message)},
                    {"status", static_cast<unsigned>(error.status)}}}};
  return dump(json);
}

std::string encode_error(const ErrorInfo& error) {
  std::size_t text_bytes = kMaxErrorText;
  std::string text = encode_error(error, text_bytes);
  while (text.size() > kMaxBrokerMessage) text = encode_error(error, text_bytes /= 2);
  return text;
}

std::string encode_done(const Done& done) {
  std::string text;
  std::size_t bytes = kMaxErrorText;
  do {
    text = dump(Json{{"type", "done"}, {"how", done.how.substr(0, bytes)}});
    bytes /= 2;
  } while (text.size() > kMaxBrokerMessage);
  return text;
}

template <typename Result, typename Read>
Expected<Result> parse(std::string_view text, const char* path, Read read) {
  try {
    return read(parse_strict(text, kMaxBrokerMessage, path));
  } catch (const BadMember& bad) {
    return std::unexpected(refused_message(bad));
  } catch (ErrorInfo& error) {
    return std::unexpected(std::move(error));
  }
}

}  // namespace

std::string encode(const BrokerRequest& request) {
  return dump(
      std::visit(Overloaded{
                     [](const HelloRequest& hello) {
                       return Json{{"type", "hello"}, {"abi", hello.abi}, {"want", to_string(hello.want)}};
                     },
                     [](const DescribeRequest&) { return Json::object({{"type", "describe"}}); },
                     [](const ResetRequest& reset) { return Json{{"type", "reset"}, {"target", reset.target}}; },
                     [](const RaiseRequest& raise) { return Json{{"type", "raise"}, {"level", name(raise.level)}}; },
                     [](const PowerCycleRequest&) { return Json::object({{"type", "power-cycle"}}); },
                     [](const StopRequest&) { return Json::object({{"type", "stop"}}); },
                     [](const CollectRequest& collect) {
                       return Json{{"type", "collect"}, {"file", collect.file}, {"now", collect.now}};
                     },
                     [](const DebugRequest& debug) { return Json{{"type", "debug"}, {"offer", debug.offer}}; },
                     [](const StatisticsRequest& statistics) {
                       return Json{{"type", "statistics"}, {"target", statistics.target}};
                     },
                     [](const OfferTimelineRequest& offer) {
                       return Json{{"type", "offer-timeline"},
                                   {"target", offer.timeline.function},
                                   {"generation", offer.timeline.generation},
                                   {"stream", offer.timeline.stream},
                                   {"incarnation", offer.timeline.incarnation}};
                     },
                     [](const RedeemTimelineRequest& redeem) {
                       return Json{{"type", "redeem-timeline"},
                                   {"target", redeem.target},
                                   {"generation", redeem.generation},
                                   {"token", to_text(redeem.token)}};
                     },
                     [](const HeldRequest&) { return Json::object({{"type", "held"}}); },
                     [](const ProofRequest& proof) { return Json{{"type", "proof"}, {"nonce", proof.nonce}}; },
                 },
                 request));
}

std::string encode(const BrokerReply& reply) {
  return std::visit(
      Overloaded{
          [](const Grant& grant) {
            return dump(Json{{"type", "granted"},
                             {"card", grant.card},
                             {"target", grant.target},
                             {"slot", grant.slot},
                             {"window_bytes", grant.window_bytes},
                             {"generation", grant.generation},
                             {"boot_epoch", grant.boot_epoch},
                             {"quota_bytes", grant.quota_bytes}});
          },
          [](const CardDescription& card) {
            return dump(Json{{"type", "card"}, {"card", Json::parse(to_json(card, -1))}});
          },
          [](const Done& done) { return encode_done(done); },
          [](const ErrorInfo& error) { return encode_error(error); },
          [](const FunctionStatistics& statistics) { return dump(statistics_json(statistics)); },
          [](const TimelineOffered& offered) {
            return dump(Json{{"type", "offered"}, {"token", to_text(offered.token)}});
          },
          [](const TimelineGrant& grant) {
            return dump(Json{{"type", "timeline-granted"}, {"grant", grant.grant}, {"epoch", grant.epoch}});
          },
          [](const Held& held) { return dump(Json{{"type", "held"}, {"by_debugger", held.by_debugger}}); },
          [](const Late&) { return dump(Json{{"type", "late"}}); },
          [](const Prove& prove) { return dump(Json{{"type", "prove"}, {"nonce", prove.nonce}}); },
      },
      reply);
}

Expected<BrokerRequest> parse_broker_request(std::string_view text) {
  return parse<BrokerRequest>(text, "request", read_request);
}
Expected<BrokerReply> parse_broker_reply(std::string_view text) {
  return parse<BrokerReply>(text, "reply", read_reply);
}

}  // namespace svp
