// SPDX-License-Identifier: Apache-2.0
// `spyre boot --name`: a card that stays, for other programs to attach to.
#include <fmt/format.h>
#include <grp.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/broker/broker.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/cli/timeline.hpp"

namespace cli {

namespace {

// Whoever watches reads a line when it is true, also through a pipe.
void say(std::string_view card, std::string_view line) {
  fmt::print("{}: {}\n", card, line);
  std::fflush(stdout);
}

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

int serve(const ServeOptions& options) {
  const SignalDescriptor stop({SIGTERM, SIGINT, SIGHUP});
  // Nobody has to read what is said here: a reader that left must not end the card.
  std::signal(SIGPIPE, SIG_IGN);
  svp::BrokerOptions broker;
  broker.name = options.name;
  broker.tenant_group = group_named(options.group);
  broker.card = card_options(options.shape, count_running_cards() + 1);
  broker.on_change = [name = options.name](std::string_view line) { say(name, line); };
  auto started = svp::Broker::start(std::move(broker));
  if (!started) throw svp::Error(std::move(started.error()));
  svp::Broker& card = **started;
  const auto about = card.description();
  say(options.name,
      fmt::format("ready: {}; {} core{}, {}, {} spare slots; folder {}", functions_of(options.shape.virtual_functions),
                  about.cores, about.cores == 1 ? "" : "s", format_bytes(static_cast<double>(about.memory_bytes)),
                  about.slots_left, card.folder().string()));
  say(options.name, fmt::format("attach with FLEX_DEVICE=PF or VF; end with spyre stop {} or Ctrl-C", options.name));
  card.run_until(stop.descriptor());
  card.stop();
  return 0;
}

}  // namespace cli
