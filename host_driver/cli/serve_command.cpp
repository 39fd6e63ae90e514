// SPDX-License-Identifier: Apache-2.0
// `spyre boot --name`: a card that stays, for other programs to attach to.
#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "host_driver/cards/broker.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/error.hpp"

namespace cli {

namespace {

// Whoever watches reads a line when it is true, also through a pipe.
void say(std::string_view card, std::string_view line) {
  fmt::print("{}: {}\n", card, line);
  std::fflush(stdout);
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
  flex::BrokerOptions broker;
  broker.name = options.name;
  broker.card = card_options(options.shape, count_running_cards() + 1);
  broker.on_change = [name = options.name](std::string_view line) { say(name, line); };
  auto started = flex::Broker::start(std::move(broker));
  if (!started) throw flex::Error(std::move(started.error()));
  flex::Broker& card = **started;
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
