// SPDX-License-Identifier: Apache-2.0
// Where scenarios take place: a card in the emulator with three tenants. VF1 is faulting: faults are aimed at it. VF2
// is bystander: it holds canaries and works all the time, and whatever happens to VF1 must not be seen there. VF3 is
// free for scenarios that need one more. M arms the faults of the card and is asked what it knows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/base/error.hpp"
#include "qemu/card.hpp"
#include "tests/support/kernel_image.hpp"
#include "tests/validation/campaign/scenario.hpp"
#include "tests/validation/campaign/test_stream.hpp"

namespace svp::campaign {

using test::kernel_image;

inline constexpr unsigned kFaulting = 1;  // VF numbers
inline constexpr unsigned kBystander = 2;
inline constexpr unsigned kThird = 3;

// A function that works and checks itself, on a thread of its own, from begin() to end().
class Bystander {
 public:
  // Places canaries in regions and in the window. Throws svp::Error.
  explicit Bystander(std::unique_ptr<Device> device);
  ~Bystander();
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  void begin();
  // Waits for one more right round behind this call, then stops. Empty: all rounds were right, every canary is whole,
  // nothing of this function was refused, failed or reset. Else what was wrong.
  std::string end(std::chrono::nanoseconds timeout);
  // One more round, right, from now on; the work goes on.
  bool gets_on(std::chrono::nanoseconds timeout);
  std::uint64_t rounds() const { return rounds_.load(); }
  Device& device() { return *device_; }
  std::span<const Region> regions() const { return canaries_; }

 private:
  void work();
  std::string round(std::uint64_t number);
  std::string check_canaries();
  std::uint64_t pattern(std::uint64_t at) const { return mark_ ^ (at * 0x9E3779B97F4A7C15u); }

  std::uint64_t mark_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<TestStream> stream_;
  std::unique_ptr<TestStream> work_stream_;
  std::vector<Region> canaries_;
  Region work_region_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::string wrong_;  // the first; of the thread until it was joined
  std::atomic<bool> is_wrong_{false};
  std::thread worker_;
};

// Under which a whole run takes place. Anything but the default is for tests/mutants.
struct Conditions {
  std::string words{};         // more boot words of every card
  bool short_timeout = false;  // what does not come is waited for with shorter bounds

  bool operator==(const Conditions&) const = default;
};

struct FixtureOptions {
  CardShape shape{};
  Conditions conditions{};
};

class CardFixture {
 public:
  // Boots. Throws svp::Error.
  explicit CardFixture(const FixtureOptions& options);
  ~CardFixture();
  CardFixture(const CardFixture&) = delete;
  CardFixture& operator=(const CardFixture&) = delete;

  const std::shared_ptr<Card>& card() { return card_; }
  const FixtureOptions& options() const { return options_; }
  // Alive, heartbeat going, not a boot of the firmware that nobody asked for.
  bool usable() const;

 private:
  FixtureOptions options_;
  std::shared_ptr<Card> card_;
};

CardOptions card_options(const FixtureOptions& options);

}  // namespace svp::campaign
