// SPDX-License-Identifier: Apache-2.0
// `spyre boot --name`: a card that stays, for other programs to attach to.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <grp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <optional>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/broker/broker.hpp"
#include "host_driver/cli/child_process.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/discovery/runtime_folder.hpp"

namespace cli {

namespace {

// What happens to the card: on stdout, a line when it is true, and, once the card has a folder, in its log.
class CardLog {
 public:
  explicit CardLog(std::string card) : card_(std::move(card)) {}

  void say(std::string_view line) {
    const std::lock_guard lock(mutex_);
    // Not fmt::print: it throws when the reader has left, which must not end the card.
    const std::string text = fmt::format("{}: {}\n", card_, line);
    std::fputs(text.c_str(), stdout);
    forget_output_failure();
    lines_.push_back(stamped(line));
    write();
  }
  void open(const std::filesystem::path& folder) {
    const std::lock_guard lock(mutex_);
    file_.open(folder / svp::kCardLogName, std::ios::app);
    write();
  }

 private:
  static std::string stamped(std::string_view line) {
    return fmt::format("{:%FT%T}Z {}\n", fmt::gmtime(std::chrono::system_clock::now()), line);
  }
  void write() {
    if (!file_.is_open()) return;
    for (const std::string& line : lines_) file_ << line;
    file_.flush();
    lines_.clear();
  }

  const std::string card_;
  std::mutex mutex_;
  std::ofstream file_;
  std::vector<std::string> lines_;
};

std::optional<gid_t> group_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (const auto* entry = ::getgrnam(name.c_str()); entry != nullptr) return entry->gr_gid;
  gid_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc{} && end == name.data() + name.size()) return number;
  throw svp::Error({.layer = svp::Layer::Driver,
                    .source = "--group",
                    .outcome = wire::Outcome::Rejected,
                    .recoverable = true,
                    .next_step = "name a group of this machine, or its number",
                    .message = "there is no group " + name});
}

std::string functions_of(unsigned virtual_functions) {
  if (virtual_functions == 0) return "PF";
  return virtual_functions == 1 ? "PF, VF1" : fmt::format("PF, VF1 to VF{}", virtual_functions);
}

}  // namespace

namespace {

// Ends the line that tells a waiting `boot --detach` that the card is there.
constexpr std::string_view kReady = ": ready: ";

std::string until_ready_or_end(int pipe, bool& ready) {
  std::string text;
  std::array<char, 512> piece;
  while (!ready) {
    // bounded: the child says that it is ready, or ends: a boot is bounded by the machine's and the device's timeouts
    const ssize_t got = ::read(pipe, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
    const auto at = text.find(kReady);
    ready = at != std::string::npos && text.find('\n', at) != std::string::npos;
  }
  return text;
}

}  // namespace

int serve_detached(const ServeOptions& options, const std::vector<std::string>& words) {
  const Progress progress("booting " + options.name);
  auto started = BackgroundProcess::start(words);
  if (!started) throw svp::Error(std::move(started.error()));
  bool ready = false;
  const std::string said = until_ready_or_end(started->output(), ready);
  if (!ready) {
    fmt::print(stderr, "{}", said);
    const int code = started->await_end();
    return code == kOk ? kRefused : code;
  }
  fmt::print("{}{}: in the background, pid {}; see spyre logs {}, end with spyre stop {}\n",
             said.substr(0, said.find('\n', said.find(kReady)) + 1), options.name, started->pid(), options.name,
             options.name);
  return kOk;
}

int serve(const ServeOptions& options) {
  const SignalDescriptor stop({SIGTERM, SIGINT, SIGHUP});
  // Nobody has to read what is said here: a reader that left must not end the card.
  std::signal(SIGPIPE, SIG_IGN);
  svp::BrokerOptions broker;
  broker.name = options.name;
  broker.tenant_group = group_named(options.group);
  broker.card = card_options(options.shape, count_running_cards() + 1);
  CardLog log(options.name);
  broker.on_change = [&log](std::string_view line) { log.say(line); };
  auto started = svp::Broker::start(std::move(broker));
  if (!started) throw svp::Error(std::move(started.error()));
  svp::Broker& card = **started;
  log.open(card.folder());
  const auto about = card.description();
  log.say(fmt::format("ready: {}; {} core{}, {}, {} spare slots; folder {}",
                      functions_of(options.shape.virtual_functions), about.cores, about.cores == 1 ? "" : "s",
                      format_bytes(static_cast<double>(about.memory_bytes)), about.slots_left, card.folder().string()));
  log.say(fmt::format("attach with FLEX_DEVICE=PF or VF; end with spyre stop {} or Ctrl-C", options.name));
  card.run_until(stop.descriptor());
  card.stop();
  return 0;
}

}  // namespace cli
