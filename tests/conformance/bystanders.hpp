// SPDX-License-Identifier: Apache-2.0
// The other functions of a card while one of them is attacked: each holds canaries in its regions and in its window,
// and works on. What they hold and what they compute must not change.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "host_driver/device/timeline_sharing.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/unit/firmware/core/raw_driver.hpp"

namespace svp::conformance {

class Bystander {
 public:
  explicit Bystander(unsigned which);
  ~Bystander();

  // As this function calls them: what an attacker would like to reach.
  std::vector<fwtest::RegionHandle> regions() const;
  // The stream on which it works, as M knows it, and the function as a grantee. A value is signalled in each round of
  // its work.
  Timeline timeline() const;
  wire::Target target() const;
  std::uint64_t generation() const { return device_->config().generation; }

  // One more region with canaries: called when the attacker has its own, so that there are some on both sides of those.
  void surround();

  // Moves data there and back on a thread until it is told to stop, and compares.
  void start_work();
  // Fails the test unless at least one round was made, and all were right.
  void stop_work();
  // Regions and window hold what they held at first; nothing of this function was refused, stopped or reset.
  void expect_untouched();

 private:
  static constexpr std::uint64_t kCanaryBytes = 1 * wire::kMiB;  // in host memory, from its start
  void place_canaries(const Region& region);
  void work();
  bool round(std::uint64_t number);
  std::uint64_t pattern(std::uint64_t at) const { return mark_ ^ at * 0x9E3779B97F4A7C15u; }

  const std::uint64_t mark_;
  std::unique_ptr<Device> device_;
  std::optional<test::Workbench> bench_;
  std::uint32_t stream_ = 0;  // of the canaries
  std::uint32_t work_stream_ = 0;
  std::vector<Region> canaries_;
  Region work_region_;
  std::atomic<bool> stop_{false};
  std::uint64_t signalled_ = 0;  // on the stream on which it works
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::thread worker_;
};

class Bystanders {
 public:
  Bystanders() {
    for (unsigned i = 0; i < Provider::kBystanders; ++i) all_[i].emplace(i);
  }
  std::vector<fwtest::RegionHandle> regions() const {
    std::vector<fwtest::RegionHandle> all;
    for (const auto& one : all_) {
      const auto its = one->regions();
      all.insert(all.end(), its.begin(), its.end());
    }
    return all;
  }
  // M grants each of them a stream of the other: what they may wait by, and nobody else.
  std::vector<fwtest::GrantHandle> grants() const;
  Timeline timeline() const { return all_[0]->timeline(); }
  void surround() {
    for (auto& one : all_) one->surround();
  }
  void start_work() {
    for (auto& one : all_) one->start_work();
  }
  void stop_work() {
    for (auto& one : all_) one->stop_work();
  }
  void expect_untouched() {
    for (auto& one : all_) one->expect_untouched();
  }

 private:
  std::array<std::optional<Bystander>, Provider::kBystanders> all_;
};

}  // namespace svp::conformance
