// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cards/attach.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "host_driver/cards/broker_connection.hpp"
#include "host_driver/cards/broker_message.hpp"
#include "shared/version.hpp"

namespace flex {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

ErrorInfo bad_grant(std::string culprit, std::string message) {
  return {.layer = Layer::Driver,
          .culprit = std::move(culprit),
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = "use the same version of the program for broker and tenant",
          .message = "the broker's grant is not usable: " + std::move(message)};
}

Expected<void> check_window(int fd, std::uint64_t bytes) {
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return std::unexpected(bad_grant("window", "no memory file"));
  if (static_cast<std::uint64_t>(info.st_size) != bytes) {
    return std::unexpected(bad_grant(
        "window", "a window of " + std::to_string(info.st_size) + " bytes instead of " + std::to_string(bytes)));
  }
  // A window that somebody can shrink would end this process by SIGBUS.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return std::unexpected(bad_grant("window", "the window is not sealed"));
  return {};
}

// `access`: O_RDONLY or O_WRONLY. A blocking bell could stop this process for ever.
Expected<void> check_pipe(int fd, int access, const char* which) {
  struct stat info{};
  const int flags = ::fcntl(fd, F_GETFL);
  if (::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) && flags >= 0 && (flags & O_ACCMODE) == access &&
      (flags & O_NONBLOCK) != 0) {
    return {};
  }
  return std::unexpected(bad_grant(which, std::string(which) + " is not the right end of a non-blocking pipe"));
}

Expected<void> check_grant(const Grant& grant, const std::vector<qemu::UniqueFd>& descriptors) {
  if (descriptors.size() != kGrantDescriptors) {
    return std::unexpected(bad_grant("descriptors", std::to_string(descriptors.size()) + " descriptors instead of " +
                                                        std::to_string(kGrantDescriptors)));
  }
  if (auto good = check_window(descriptors[0].get(), grant.window_bytes); !good) return good;
  if (auto good = check_pipe(descriptors[1].get(), O_WRONLY, "bell to the card"); !good) return good;
  if (auto good = check_pipe(descriptors[2].get(), O_RDONLY, "bell from the card"); !good) return good;
  return check_pipe(descriptors[3].get(), O_RDONLY, "death pipe");
}

// How the card ended, by the broker's last word. `death` became readable, or is about to.
std::string last_word(int death, pid_t broker, std::chrono::nanoseconds bound) {
  pollfd event{death, POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(bound).count();
  if (::poll(&event, 1, static_cast<int>(ms)) <= 0) return {};
  char text[256];
  const ssize_t bytes = ::read(death, text, sizeof text);  // bounded: poll() said that there is something
  if (bytes > 0) return std::string(text, static_cast<std::size_t>(bytes));
  return "its broker (pid " + std::to_string(broker) + ") ended, and the emulator with it";
}

DeviceOptions device_options(const std::string& card, qemu::UniqueFd death, qemu::UniqueFd connection, pid_t broker,
                             const OpenOptions& options, const Timeouts& timeouts) {
  DeviceOptions device;
  device.card_name = card;
  device.optional_features = options.optional_features;
  device.polled = options.polled;
  device.timeouts = timeouts;
  device.faults = options.faults;
  // The connection lives in the device's options: the function is ours as long as the device is.
  device.how_card_ended = [kept = std::make_shared<qemu::UniqueFd>(std::move(connection)), fd = death.get(), broker,
                           bound = timeouts.death_report] { return last_word(fd, broker, bound); };
  device.exit_fd = std::move(death);
  return device;
}

// The window's words and the broker's must be about the same function: each is written by another program.
Expected<void> check_identity(const Device& device, const Grant& grant) {
  const wire::DeviceConfig& config = device.config();
  const bool physical = grant.target == wire::kTargetPhysical;
  const auto kind = physical ? wire::FunctionKind::Physical : wire::FunctionKind::Virtual;
  if (config.kind == kind && config.function_index == grant.target - wire::kTargetPhysical &&
      config.slot == grant.slot && config.boot_epoch == grant.boot_epoch) {
    return {};
  }
  return std::unexpected(bad_grant(
      "function", "the window says " + std::string(wire::name(config.kind)) + " " +
                      std::to_string(config.function_index) + " in slot " + std::to_string(config.slot) +
                      ", the broker " + function_name(grant.target) + " in slot " + std::to_string(grant.slot)));
}

Expected<void> command(std::string_view card, const BrokerRequest& request, const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, timeouts.card_command);
  if (!connection) return std::unexpected(std::move(connection.error()));
  const auto answer = connection->transact(request);
  if (!answer) return std::unexpected(answer.error());
  if (std::holds_alternative<Done>(answer->reply)) return {};
  return std::unexpected(bad_grant("reply", "it answers another question"));
}

}  // namespace

Expected<AttachedFunction> attach(std::string_view card, const FunctionChoice& choice, OpenOptions options,
                                  const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, timeouts.attach);
  if (!connection) return std::unexpected(std::move(connection.error()));
  auto answer = connection->transact(HelloRequest{wire::kAbiVersion, choice});
  if (!answer) return std::unexpected(std::move(answer.error()));
  const auto* grant = std::get_if<Grant>(&answer->reply);
  if (grant == nullptr) return std::unexpected(bad_grant("reply", "it answers another question"));
  auto& descriptors = answer->descriptors;
  if (auto good = check_grant(*grant, descriptors); !good) return std::unexpected(std::move(good.error()));

  const pid_t broker = connection->broker();
  options.faults.function = grant->target;
  auto device = Device::attach(
      {grant->slot, grant->window_bytes, std::move(descriptors[0]), std::move(descriptors[1]),
       std::move(descriptors[2])},
      device_options(grant->card, std::move(descriptors[3]), std::move(*connection).release(), broker, options, timeouts));
  if (!device) return std::unexpected(std::move(device.error()));
  if (auto same = check_identity(**device, *grant); !same) return std::unexpected(std::move(same.error()));
  return AttachedFunction{.device = *std::move(device),
                          .target = grant->target,
                          .function = function_name(grant->target),
                          .card = grant->card,
                          .broker = broker,
                          .quota_bytes = grant->quota_bytes};
}

Expected<CardDescription> describe_card(std::string_view card, const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(card, timeouts.attach);
  if (!connection) return std::unexpected(std::move(connection.error()));
  auto answer = connection->transact(DescribeRequest{});
  if (!answer) return std::unexpected(std::move(answer.error()));
  if (auto* description = std::get_if<CardDescription>(&answer->reply)) return std::move(*description);
  return std::unexpected(bad_grant("reply", "it answers another question"));
}

Expected<void> stop_card(std::string_view card, const Timeouts& timeouts) {
  return command(card, StopRequest{}, timeouts);
}
Expected<void> reset_function(std::string_view card, wire::Target target, const Timeouts& timeouts) {
  return command(card, ResetRequest{target}, timeouts);
}
Expected<void> power_cycle_card(std::string_view card, const Timeouts& timeouts) {
  return command(card, PowerCycleRequest{}, timeouts);
}

}  // namespace flex
