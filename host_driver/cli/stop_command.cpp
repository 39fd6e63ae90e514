// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "host_driver/cli/commands.hpp"
#include "host_driver/discovery/device_list.hpp"

namespace cli {

namespace {

int stop_all() {
  auto cards = svp::running_cards();
  if (!cards) throw svp::Error(std::move(cards.error()));
  int code = 0;
  for (const auto& card : *cards) {
    if (auto stopped = svp::stop_card(card.name); stopped) {
      fmt::print("{}: stopped\n", card.name);
    } else {
      fmt::print(stderr, "spyre: {}: {}\n", card.name, svp::describe(stopped.error()));
      code = 1;
    }
  }
  return code;
}

}  // namespace

int stop(const StopOptions& options) {
  if (options.all) return stop_all();
  if (auto stopped = svp::stop_card(options.card); !stopped) throw svp::Error(std::move(stopped.error()));
  fmt::print("{}: stopped\n", options.card);
  return 0;
}

}  // namespace cli
