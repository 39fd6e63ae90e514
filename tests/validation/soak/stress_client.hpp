// SPDX-License-Identifier: Apache-2.0
// A tenant of a soak, at the level of control blocks: it knows how each block that it sends has to end. In undisturbed
// time nothing else is accepted; in a disturbance each must end once, typed, and what ended OK must be right all the
// same.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "qemu/card.hpp"
#include "tests/validation/campaign/test_stream.hpp"
#include "tests/validation/soak/cpu_wait.hpp"
#include "tests/validation/soak/disturbance_tracker.hpp"

namespace svp::soak {

// What one tenant did and saw. Blocks: submitted = the sum of outcomes, or a complaint says so.
struct StressClientReport {
  std::string function;
  std::uint64_t blocks = 0;
  std::map<std::string, std::uint64_t> outcomes{};  // by name
  std::uint64_t batches = 0;
  std::uint64_t strict = 0;  // of these: in undisturbed time, every block as expected
  std::uint64_t bytes_checked = 0;
  std::uint64_t attachments = 0;
  std::uint64_t stream_resets = 0, queue_resets = 0, function_resets = 0, regions = 0;
  std::uint64_t waits = 0;                // of streams for others: ended as expected, or let go of
  std::uint64_t statistics = 0;           // the card's counters compared with these, equal
  std::uint64_t starved = 0;              // waits that ran out while hart 0 had no CPU: not judged
  std::vector<std::string> complaints{};  // the first few; empty: clean
  std::uint64_t complained = 0;
};

class StressClient {
 public:
  // `function`: 0 is the PF, n is VF n. `disturbances` and `card` outlive this.
  StressClient(Card& card, unsigned function, std::uint64_t seed, const DisturbanceTracker& tracker);
  ~StressClient();
  StressClient(const StressClient&) = delete;
  StressClient& operator=(const StressClient&) = delete;

  // Until `stop`; then lets go of the function. Never throws. On a thread of its own.
  void play(const std::atomic<bool>& stop) noexcept;

  // Another thread may ask: the region that a fault of the memory can be aimed at.
  static constexpr std::uint64_t kNoRegion = ~std::uint64_t{0};
  std::uint64_t region() const { return region_.load(); }
  std::uint64_t rounds() const { return rounds_.load(); }
  bool complained() const { return complained_.load(); }
  // As it was after the last round.
  StressClientReport so_far() const {
    const std::lock_guard guard(published_mutex_);
    return published_;
  }
  // When play() has returned.
  const StressClientReport& report() const { return report_; }

 private:
  struct End {
    wire::Outcome outcome;
    wire::Status status;  // None: any
  };
  struct Batch {
    std::vector<wire::ControlBlock> blocks{};
    std::vector<End> ends{};
    void add(const wire::ControlBlock& block, wire::Outcome outcome = wire::Outcome::Ok,
             wire::Status status = wire::Status::None) {
      blocks.push_back(block);
      ends.push_back({outcome, status});
    }
  };

  bool attach(const std::atomic<bool>& stop);
  void detach();
  void round();
  void publish();
  void show_whole();
  void any_batch();
  // Owner's own disturbances, each every so many rounds.
  void housekeeping();
  void move_data();
  void fill_and_read();
  void many_nops();
  void refused();
  void endless();
  void cancelled();
  void reset_in_flight();
  void waiting();
  // Sends, waits, judges. True: every block ended as expected.
  bool perform(const Batch& batch);
  bool judge(const Batch& batch, std::size_t from) { return judge(*stream_, batch, from); }
  bool judge(campaign::TestStream& stream, const Batch& batch, std::size_t from);
  void compare(const void* expected, std::uint64_t at, std::uint64_t bytes);
  void reset_stream();
  // The card's own counters against what this attachment saw.
  void compare_statistics();
  // Something that has no excuse in undisturbed time. In a disturbance the function is let go of and had again.
  void unexpected(const std::string& what);
  void too_late(const std::string& what);
  bool starved();  // since the round, or the attempt to attach, began
  // Waits for soak_bounds::kTimeout in which hart 0 had a CPU or wanted none, so that a busy machine makes it longer
  // and not wrong; `wait` takes a bound and tells whether it came.
  bool wait_fairly(const std::function<bool(std::chrono::nanoseconds)>& wait);
  void complain(const std::string& what);
  void count_ends();
  void count(const std::vector<wire::Completion>& ends);
  void close_accounts();
  void close_accounts(campaign::TestStream& stream);
  void end_waiter();
  bool undisturbed() const { return tracker_.undisturbed_since(target_, mark_); }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  Card& card_;
  const unsigned function_;
  const unsigned target_;
  const DisturbanceTracker& tracker_;
  std::mt19937_64 random_;
  DisturbanceTracker::Mark mark_{};      // what has happened since is judged by it
  DisturbanceTracker::Mark attached_{};  // likewise, since the attachment
  bool strict_ = false;                  // since mark_ the function was shown to be whole
  bool start_over_ = false;
  CpuWait cpu_wait_;
  std::chrono::nanoseconds waited_before_{};  // this round
  std::unique_ptr<Device> device_;
  std::unique_ptr<campaign::BlockBuilder> builder_;
  std::unique_ptr<campaign::TestStream> stream_;
  std::unique_ptr<campaign::TestStream> waiter_;  // during waiting()
  std::uint64_t signalled_ = 0;                   // values of the test stream's timeline
  std::uint64_t sequence_ = 0;                    // of the test stream's last block in its incarnation
  std::uint64_t spin_bytes_ = 0;                  // of the kernel that never ends
  std::size_t counted_ = 0;                       // of the test stream's ends
  std::array<std::uint64_t, wire::kOutcomeCount> since_attached_{};  // ends, by wire::Outcome
  std::atomic<std::uint64_t> region_{kNoRegion};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<bool> complained_{false};
  StressClientReport report_;
  mutable std::mutex published_mutex_;
  StressClientReport published_;  // a copy for other threads
};

}  // namespace svp::soak
