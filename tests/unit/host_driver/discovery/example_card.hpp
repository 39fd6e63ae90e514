// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <string>

#include "host_driver/discovery/card_description.hpp"
#include "shared/version.hpp"

namespace svp::test {

// A card with a PF and `vfs` virtual functions, the last one owned.
inline CardDescription example_card(std::string name = "card0", unsigned vfs = 2) {
  CardDescription card;
  card.name = std::move(name);
  card.broker = ::getpid();
  card.emulator = 4711;
  card.abi = wire::kAbiVersion;
  card.cores = 2;
  card.memory_bytes = 98ull << 30;
  card.window_bytes = 256ull << 20;
  card.slots_total = 10 + vfs;
  card.slots_used = 2 + vfs;
  card.slots_left = 8;
  card.created = 1'700'000'000;
  for (unsigned n = 0; n <= vfs; ++n) card.functions.push_back({.target = 1 + n, .slot = 1 + n});
  card.functions.back().use = FunctionUse::Owned;
  card.functions.back().owner = 1234;
  return card;
}

}  // namespace svp::test
