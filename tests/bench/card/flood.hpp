// SPDX-License-Identifier: Apache-2.0
// Neighbours who take whatever a virtual function can take, each in a thread of its own. For the measurements and the
// tests of fairness between functions; the real driver, the real rings, no shortcut into the card.
//
// The floods are about the card, so their host threads run with the lowest weight of the scheduler (nice 19): a victim
// that wakes up takes its CPU back at once, and what it then waits for is the card. On a machine with two CPUs, where
// the card's hart 0 has one of them, that leaves a flood the time in which the victim sleeps: let the victim sleep
// instead of spinning (svp::FaultHooks::no_spinning), or the flood starves.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "qemu/card.hpp"

namespace bench {

enum class FloodKind : std::uint8_t {
  Copies,     // the ring full of DMA, 64 MiB each, host to card
  Kernels,    // the ring full of kernels that never end by themselves, all for core 0
  Admin,      // QUERY in every admin slot, sent again as soon as it is answered
  Doorbells,  // nothing but doorbells, as fast as the pipe takes them
  Rejected,   // the ring full of blocks that the card refuses, for every reason; some poison their stream
  Images,     // the ring full of launches whose images, as long as they may be, do not match their checksums
};
inline constexpr FloodKind kFloodKinds[] = {FloodKind::Copies,    FloodKind::Kernels,  FloodKind::Admin,
                                            FloodKind::Doorbells, FloodKind::Rejected, FloodKind::Images};
std::string_view name(FloodKind kind);
class FloodSource;

// One tenant: attached from construction to destruction, flooding between start() and stop().
class Flood {
 public:
  // From flood_sources.hpp.
  explicit Flood(std::unique_ptr<FloodSource> source);
  ~Flood();
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  // Returns when everything has been filled once. Throws MeasurementError when the flood has failed or does not come
  // up.
  void start();
  // Returns when the card has nothing of it any more. Throws likewise.
  void stop();
  // Operations (blocks, commands, doorbells) that the card has ended: the evidence that there was a flood. Call between
  // stop() and start().
  std::uint64_t ended() const { return ended_.load(std::memory_order_relaxed); }

 private:
  enum class State : std::uint8_t { Idle, Starting, Flooding, Stopping, Over };
  void run();
  void go_to(State wanted, State reached);

  std::unique_ptr<FloodSource> source_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<State> state_{State::Idle};
  std::string failure_;
  std::atomic<std::uint64_t> ended_{0};
  std::thread thread_;
};

// Several tenants of one kind on VF `first_vf` and those behind it.
class Floods {
 public:
  // Throws svp::Error, MeasurementError.
  Floods(svp::Card& card, unsigned first_vf, unsigned count, FloodKind kind);
  void start();
  void stop();
  // Of all together; throws MeasurementError when one of them has done nothing.
  std::uint64_t ended() const;

 private:
  std::vector<std::unique_ptr<Flood>> floods_;
};

}  // namespace bench
