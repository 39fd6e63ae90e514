// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/attach.hpp"

#include <utility>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/device/spin_policy.hpp"
#include "host_driver/discovery/broker_connection.hpp"
#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "host_driver/discovery/tenancy.hpp"
#include "shared/version.hpp"

namespace svp {

namespace {

ErrorInfo bad_reply() {
  return {.layer = Layer::Driver,
          .source = "reply",
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = "use the same version of the program for broker and tenant",
          .message = "the broker's reply is not usable: it answers another question"};
}

using Socket = BrokerConnection::Socket;

// It stays the same card, whatever becomes of the environment and the working directory later. As it was named when
// there is no working directory any more.
Expected<std::string> absolute_card_path(std::string_view card) {
  auto path = card_path(card);
  if (!path) return std::unexpected(std::move(path.error()));
  std::error_code none;
  const std::filesystem::path whole = std::filesystem::absolute(*path, none);
  return (none ? *path : whole).string();
}

Expected<std::string> command(std::string_view card, const BrokerRequest& request, const Timeouts& timeouts,
                              Socket socket = Socket::Management) {
  auto connection = BrokerConnection::open(card, socket, timeouts.card_command);
  if (!connection) return std::unexpected(std::move(connection.error()));
  const auto answer = connection->transact(request);
  if (!answer) return std::unexpected(answer.error());
  if (const auto* done = std::get_if<Done>(&answer->reply)) return done->how;
  return std::unexpected(bad_reply());
}

}  // namespace

Expected<AttachedFunction> attach(std::string_view card, const FunctionChoice& choice, OpenOptions options,
                                  const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, Socket::Tenant, timeouts.attach);
  if (!connection) return std::unexpected(std::move(connection.error()));
  connection->ask(HelloRequest{wire::kAbiVersion, choice});
  // While the broker answers.
  SpinPolicy::count_cpus();
  auto loop = EventLoop::create();
  if (!loop) return std::unexpected(std::move(loop.error()));
  auto answer = connection->answer();
  if (!answer) return std::unexpected(std::move(answer.error()));
  const auto* grant = std::get_if<Grant>(&answer->reply);
  if (grant == nullptr) return std::unexpected(bad_reply());
  const pid_t broker = connection->broker();
  auto folder = absolute_card_path(card);
  if (!folder) return std::unexpected(std::move(folder.error()));
  auto tenancy = Tenancy::take(*grant, std::move(answer->descriptors), std::move(*connection).release(), broker,
                               *std::move(folder));
  if (!tenancy) return std::unexpected(std::move(tenancy.error()));
  options.faults.function = grant->target;
  auto device = (*tenancy)->open(options, timeouts, *std::move(loop));
  if (!device) return std::unexpected(std::move(device.error()));
  return AttachedFunction{.device = *std::move(device),
                          .target = grant->target,
                          .function = function_name(grant->target),
                          .card = grant->card,
                          .broker = broker,
                          .quota_bytes = grant->quota_bytes,
                          .tenancy = *tenancy};
}

Expected<CardDescription> describe_card(std::string_view card, const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, Socket::Tenant, timeouts.attach);
  if (!connection) return std::unexpected(std::move(connection.error()));
  auto answer = connection->transact(DescribeRequest{});
  if (!answer) return std::unexpected(std::move(answer.error()));
  if (auto* description = std::get_if<CardDescription>(&answer->reply)) return std::move(*description);
  return std::unexpected(bad_reply());
}

Expected<FunctionStatistics> function_statistics(std::string_view card, wire::Target target, const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, Socket::Management, timeouts.card_command);
  if (!connection) return std::unexpected(std::move(connection.error()));
  const auto answer = connection->transact(StatisticsRequest{target});
  if (!answer) return std::unexpected(answer.error());
  const auto* statistics = std::get_if<FunctionStatistics>(&answer->reply);
  if (statistics == nullptr || statistics->target != target) return std::unexpected(bad_reply());
  return *statistics;
}

Expected<TimelineToken> offer_timeline(std::string_view card, const Timeline& timeline, const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, Socket::Tenant, timeouts.attach);
  if (!connection) return std::unexpected(std::move(connection.error()));
  const auto answer = connection->transact(OfferTimelineRequest{timeline});
  if (!answer) return std::unexpected(answer.error());
  const auto* offered = std::get_if<TimelineOffered>(&answer->reply);
  if (offered == nullptr) return std::unexpected(bad_reply());
  return offered->token;
}

Expected<TimelineGrant> redeem_timeline(std::string_view card, const TimelineToken& token, wire::Target grantee,
                                        std::uint64_t generation, const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, Socket::Tenant, timeouts.card_command);
  if (!connection) return std::unexpected(std::move(connection.error()));
  const auto answer = connection->transact(RedeemTimelineRequest{grantee, generation, token});
  if (!answer) return std::unexpected(answer.error());
  const auto* granted = std::get_if<TimelineGrant>(&answer->reply);
  if (granted == nullptr) return std::unexpected(bad_reply());
  return *granted;
}

Expected<void> stop_card(std::string_view card, const Timeouts& timeouts) {
  const auto done = command(card, StopRequest{}, timeouts);
  if (!done) return std::unexpected(done.error());
  return {};
}
Expected<std::string> reset_function(std::string_view card, wire::Target target, const Timeouts& timeouts) {
  return command(card, ResetRequest{target}, timeouts);
}
Expected<std::string> reset_own_function(std::string_view card, wire::Target target, const Timeouts& timeouts) {
  return command(card, ResetRequest{target}, timeouts, Socket::Tenant);
}
Expected<std::string> raise_card(std::string_view card, ResetLevel level, const Timeouts& timeouts) {
  if (level == ResetLevel::PowerCycle) return power_cycle_card(card, timeouts);
  return command(card, RaiseRequest{level}, timeouts);
}
Expected<std::string> power_cycle_card(std::string_view card, const Timeouts& timeouts) {
  return command(card, PowerCycleRequest{}, timeouts);
}

Expected<void> collect_core(std::string_view card, const std::filesystem::path& file, bool now,
                            const Timeouts& timeouts) {
  const auto done = command(card, CollectRequest{std::filesystem::absolute(file).string(), now}, timeouts);
  if (!done) return std::unexpected(done.error());
  return {};
}
Expected<std::filesystem::path> offer_debugger(std::string_view card, const Timeouts& timeouts) {
  auto folder = card_path(card);
  if (!folder) return std::unexpected(std::move(folder.error()));
  if (auto offered = command(card, DebugRequest{true}, timeouts); !offered) return std::unexpected(offered.error());
  return *folder / kDebuggerName;
}
Expected<void> withdraw_debugger(std::string_view card, const Timeouts& timeouts) {
  const auto done = command(card, DebugRequest{false}, timeouts);
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace svp
