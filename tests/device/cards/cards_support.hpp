// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: a runtime folder of their own, brokers in this process, tenants in others.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "host_driver/broker/broker.hpp"
#include "host_driver/discovery/attach.hpp"
#include "shared/units.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/device/cards/helper_process.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp::test {

// Small: two cores, `vfs` virtual functions, `spares` windows kept plugged for owners to come.
BrokerOptions small_broker(const std::filesystem::path& runtime_folder, std::string name, unsigned vfs = 2,
                           unsigned spares = 8, std::uint64_t window_bytes = 256 * wire::kMiB);

// A broker in this process, in a runtime folder that ends with it.
class ServedCard {
 public:
  explicit ServedCard(unsigned vfs = 2, unsigned spares = 8, std::uint64_t window_bytes = 256 * wire::kMiB);

  Broker& broker() { return *broker_; }
  std::string folder() const { return broker_->folder().string(); }
  CardDescription description() const { return broker_->description(); }
  FunctionDescription function(wire::Target target) const { return description().functions.at(target - 1); }
  // See Broker::at_rest(); false when it did not come in time.
  bool wait_until_at_rest() const;
  // Waits until the description is as asked; false when it did not become so in time.
  bool wait_until(const std::function<bool(const CardDescription&)>& holds,
                  std::chrono::milliseconds bound = kBound) const;

 private:
  qemu::test::TemporaryFolder runtime_folder_;
  std::unique_ptr<Broker> broker_;
};

// False when the broker did not come to rest in time.
bool wait_until_at_rest(const Broker& broker);

// What this process and the card's emulator hold, counted while the broker is at rest: the broker's threads are this
// process's, and what they hold for a moment must not be in a count that another one is compared with.
struct BothProcesses {
  ProcessResources ours;
  std::map<std::string, std::size_t> emulator_descriptors;  // by kind
  std::size_t emulator_threads = 0;
};
BothProcesses count_both(const ServedCard& card);
// Likewise left_over(): of this process, and what the emulator has more of, when it stays so.
std::string left_over(const ServedCard& card, const BothProcesses& before);

// tenant (see tenant.cpp), started; `attached` of the result is its first line.
struct Tenant : HelperProcess {
  Tenant(const std::string& folder, const std::string& function, const std::string& command);
  std::string attached;
};

}  // namespace svp::test
