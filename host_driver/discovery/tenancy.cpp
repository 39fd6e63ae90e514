// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/tenancy.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "host_driver/discovery/broker_connection.hpp"
#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/function_choice.hpp"

namespace svp {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

ErrorInfo bad_grant(std::string source, std::string message) {
  return {.layer = Layer::Driver,
          .source = std::move(source),
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

// `access`: O_RDONLY or O_WRONLY. A blocking doorbell could stop this process for ever.
Expected<void> check_pipe(int fd, int access, const char* which) {
  struct stat info{};
  const int flags = ::fcntl(fd, F_GETFL);
  if (::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) && flags >= 0 && (flags & O_ACCMODE) == access &&
      (flags & O_NONBLOCK) != 0) {
    return {};
  }
  return std::unexpected(bad_grant(which, std::string(which) + " is not the right end of a non-blocking pipe"));
}

Expected<void> check_grant(const Grant& grant, const std::vector<UniqueFd>& descriptors) {
  if (descriptors.size() != kGrantDescriptors) {
    return std::unexpected(bad_grant("descriptors", std::to_string(descriptors.size()) + " descriptors instead of " +
                                                        std::to_string(kGrantDescriptors)));
  }
  if (auto good = check_window(descriptors[0].get(), grant.window_bytes); !good) return good;
  if (auto good = check_pipe(descriptors[1].get(), O_WRONLY, "doorbell to the card"); !good) return good;
  if (auto good = check_pipe(descriptors[2].get(), O_RDONLY, "doorbell from the card"); !good) return good;
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

// The window's words and the broker's must be about the same function: each is written by another program.
Expected<void> check_identity(const Device& device, const Grant& grant) {
  const wire::DeviceConfig& config = device.config();
  const bool physical = grant.target == wire::kTargetPhysical;
  const auto kind = physical ? wire::FunctionKind::Physical : wire::FunctionKind::Virtual;
  if (config.kind == kind && config.function_index == grant.target - wire::kTargetPhysical &&
      config.slot == grant.slot) {
    return {};
  }
  return std::unexpected(bad_grant(
      "function", "the window says " + std::string(wire::name(config.kind)) + " " +
                      std::to_string(config.function_index) + " in slot " + std::to_string(config.slot) +
                      ", the broker " + function_name(grant.target) + " in slot " + std::to_string(grant.slot)));
}

// A broker that does not say so at once is not asked for longer: the caller's own bound goes on.
bool held_by_debugger(const std::string& folder, const Timeouts& timeouts) {
  auto connection = BrokerConnection::open(folder, BrokerConnection::Socket::Tenant, timeouts.hello);
  if (!connection) return false;
  const auto answer = connection->transact(HeldRequest{});
  const auto* held = answer ? std::get_if<Held>(&answer->reply) : nullptr;
  return held != nullptr && held->by_debugger;
}

ErrorInfo no_descriptor() {
  return {.layer = Layer::Driver,
          .source = "descriptors",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "close descriptors or raise their limit (ulimit -n)",
          .message = "no descriptor is left for another device on this function"};
}

}  // namespace

Expected<std::shared_ptr<Tenancy>> Tenancy::take(const Grant& grant, std::vector<UniqueFd> descriptors,
                                                 UniqueFd connection, pid_t broker, std::string folder) {
  if (auto good = check_grant(grant, descriptors); !good) return std::unexpected(std::move(good.error()));
  return std::shared_ptr<Tenancy>(
      new Tenancy(grant, std::move(descriptors), std::move(connection), broker, std::move(folder)));
}

Tenancy::Tenancy(const Grant& grant, std::vector<UniqueFd> descriptors, UniqueFd connection, pid_t broker,
                 std::string folder)
    : grant_(grant),
      window_(std::move(descriptors[0])),
      doorbell_to_card_(std::move(descriptors[1])),
      doorbell_from_card_(std::move(descriptors[2])),
      death_(std::move(descriptors[3])),
      connection_(std::move(connection)),
      broker_(broker),
      folder_(std::move(folder)) {}

bool Tenancy::alive() const {
  pollfd events[] = {{death_.get(), POLLIN, 0}, {connection_.get(), POLLRDHUP, 0}};
  return ::poll(events, 2, 0) == 0;
}

Expected<std::unique_ptr<Device>> Tenancy::open(const OpenOptions& options, const Timeouts& timeouts,
                                                std::shared_ptr<EventLoop> loop) {
  DeviceOptions device;
  device.loop = std::move(loop);
  device.exit_fd = death_.duplicate();
  UniqueFd window = window_.duplicate();
  UniqueFd to_card = doorbell_to_card_.duplicate();
  UniqueFd from_card = doorbell_from_card_.duplicate();
  if (!device.exit_fd.valid() || !window.valid() || !to_card.valid() || !from_card.valid()) {
    return std::unexpected(no_descriptor());
  }
  device.optional_features = options.optional_features;
  device.polled = options.polled;
  device.timeouts = timeouts;
  device.faults = options.faults;
  device.card_name = grant_.card;
  // The device keeps the tenancy, and with it the connection: the function is ours as long as the device is.
  device.how_card_ended = [tenancy = shared_from_this(), bound = timeouts.death_report] {
    return last_word(tenancy->death_.get(), tenancy->broker_, bound);
  };
  device.held_by_debugger = [folder = folder_, timeouts] { return held_by_debugger(folder, timeouts); };
  auto attached =
      Device::attach({grant_.slot, grant_.window_bytes, std::move(window), std::move(to_card), std::move(from_card)},
                     std::move(device));
  if (!attached) return attached;
  if (auto same = check_identity(**attached, grant_); !same) return std::unexpected(std::move(same.error()));
  return attached;
}

}  // namespace svp
