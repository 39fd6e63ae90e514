// SPDX-License-Identifier: Apache-2.0
// The whole driver on a window that changes under it: a real card serves the function, and before each of its
// iterations the input may overwrite any word that a card could write, from bring-up to the end; or the card dies.
// Attaching ends with a device or a typed error, every accepted block ends exactly once, every call returns, and so
// does the destructor.
#include <array>
#include <atomic>
#include <deque>

#include "host_driver/base/timeouts.hpp"
#include "shared/memory_order.hpp"
#include "tests/bounds.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace {

using fuzz::Input;
using fuzz::require;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;

constexpr unsigned kSlot = 1;  // the PF
constexpr std::size_t kMostMutations = 64;

// One word that changes, so many iterations of the card after the last one.
struct Mutation {
  std::uint8_t iterations;
  std::uint8_t block;
  std::uint16_t word;
  std::uint8_t how;
  std::uint64_t value;
};

// What is outstanding for ever must not hold a fuzzer for long.
svp::Timeouts impatient() {
  svp::Timeouts t;
  // reached: which ends a call by a typed error, and that is what the target asks for
  t.post_progress = t.function_reset = t.admin = t.detach = 20ms;
  t.death_report = 5ms;                            // reached: only an error's text is the poorer
  t.silent = 10ms;                                 // reached: nothing is given up by it
  t.recheck_max = t.tick = t.recheck_min = 500us;  // reached: these are looks, and more of them
  return t;
}

struct Sink final : svp::CompletionSink {
  void on_completion(const wire::Completion& completion) noexcept override {
    require(completion.outcome <= wire::Outcome::Indeterminate, "an outcome is one of seven");
    require(calls.fetch_add(1) == 0, "a block ends once");
  }
  std::atomic<unsigned> calls{0};
};

// Applied by the card's thread.
class Mutator {
 public:
  explicit Mutator(Input& input) {
    const unsigned count = std::min<unsigned>(input.below(kMostMutations + 1), kMostMutations);
    for (unsigned i = 0; i < count; ++i) {
      mutations_[i] = {input.take<std::uint8_t>(), input.take<std::uint8_t>(), input.take<std::uint16_t>(),
                       input.take<std::uint8_t>(), input.take<std::uint64_t>()};
    }
    count_ = count;
  }

  // Before that nothing happens.
  void begin(std::byte* window) { window_.store(window, std::memory_order_release); }
  void run_iteration() {
    std::byte* const window = window_.load(std::memory_order_acquire);
    if (window == nullptr || next_ == count_ || waited_++ < mutations_[next_].iterations) return;
    waited_ = 0;
    apply(window, mutations_[next_++]);
  }

 private:
  static constexpr wire::Block kWhere[] = {wire::kHeaderBlock,
                                           wire::kFifoToHost,
                                           {wire::kFifoToCard.offset, wire::kStickBytes * 2},
                                           {wire::kQueueLayouts[wire::kControlBlockQueue].descriptors, 1024},
                                           {wire::kQueueLayouts[wire::kAdminQueue].descriptors, 1024},
                                           {wire::kQueueLayouts[wire::kEventQueue].descriptors, 1024},
                                           {wire::kQueueBlock.offset, wire::kQueueBlock.bytes},
                                           {wire::kCompletions.offset, 2048},
                                           {wire::kAdminReplies.offset, 1024},
                                           {wire::kStartedSequences.offset, 64}};

  static void apply(std::byte* window, const Mutation& mutation) {
    const wire::Block& block = kWhere[mutation.block % std::size(kWhere)];
    const std::uint64_t at = block.offset + mutation.word % (block.bytes / 8) * 8;
    auto& word = *reinterpret_cast<std::uint64_t*>(window + at);
    const std::uint64_t old = wire::load_relaxed(word);
    switch (mutation.how % 4) {
      case 0: return wire::store_relaxed(word, mutation.value);
      case 1: return wire::store_relaxed(word, old ^ std::uint64_t{1} << mutation.value % 64);
      case 2: return wire::store_relaxed(word, old + 1);
      default: return wire::store_relaxed(word, old ^ std::uint64_t{0x8080} << 48);  // AVAIL and USED
    }
  }

  std::array<Mutation, kMostMutations> mutations_{};
  std::size_t count_;
  std::size_t next_ = 0;
  unsigned waited_ = 0;
  std::atomic<std::byte*> window_{nullptr};
};

class Driver {
 public:
  Driver(Input& input, svp::test::NativeCard& card, svp::Device& device)
      : input_(input), card_(card), device_(device) {}

  void step() {
    switch (input_.below(12)) {
      case 0:
      case 1:
      case 2: return submit();
      case 3: return wait();
      case 4: return (void)device_.poll();
      case 5: return typed(device_.open_stream(svp::StreamPriority::Low));
      case 6: return typed(device_.reset_stream(input_.below(4)));
      case 7: return typed(device_.close_stream(1 + input_.below(4)));
      case 8: return regions();
      case 9: return typed(device_.card_statistics());
      case 10: return (void)device_.take_events();
      default:
        if (input_.below(8) == 0) card_.die();
    }
  }

  // All sinks, once the device is gone.
  static void expect_all_ended(const std::deque<Sink>& sinks) {
    for (const Sink& sink : sinks) require(sink.calls == 1, "every accepted block has ended");
  }
  std::deque<Sink> take_sinks() { return std::move(sinks_); }

 private:
  template <typename T>
  static void typed(const svp::Expected<T>& result) {
    require(result || (!result.error().next_step.empty() && !result.error().message.empty()), "an error says all");
  }

  void submit() {
    wire::ControlBlock block{};
    block.header.opcode = static_cast<wire::Opcode>(input_.below(8) == 0 ? input_.below(8) : 0);
    const svp::ControlBlockRequest request{&block, &sinks_.emplace_back()};
    const auto accepted = device_.submit(input_.below(3), {&request, 1});
    typed(accepted);
    if (!accepted || *accepted == 0) sinks_.pop_back();
  }
  void wait() {
    const auto until = svp::Device::Clock::now() + test_bounds::kFuzzedWait;
    const Sink* last = sinks_.empty() ? nullptr : &sinks_.back();
    const auto status = device_.wait_until([&] { return last == nullptr || last->calls != 0; }, until);
    require(status != svp::WaitStatus::Refused, "no sink runs here");
    require(status != svp::WaitStatus::Failed || device_.failure().has_value(), "a device that failed says why");
  }
  void regions() {
    const auto region = device_.acquire_region(svp::RegionType::Tensor, wire::kGranuleBytes);
    typed(region);
    if (region && input_.below(2) != 0) typed(device_.release_region(*region));
  }

  Input& input_;
  svp::test::NativeCard& card_;
  svp::Device& device_;
  std::deque<Sink> sinks_;
};

}  // namespace

void fuzz::run(Input input) {
  const bool from_the_start = input.below(2) != 0;
  Mutator mutator(input);
  svp::test::NativeCard card({.virtual_functions = 0,
                              .window_bytes = wire::kMinWindowBytes,
                              .before_iteration = [&](fw::Card&) { mutator.run_iteration(); }});
  if (from_the_start) mutator.begin(card.window(kSlot));
  svp::DeviceOptions options;
  options.timeouts = impatient();
  if (!from_the_start) options.timeouts.post_progress = svp::Timeouts{}.post_progress;
  auto device = svp::Device::attach(card.slot(kSlot), card.device_options(std::move(options)));
  if (!device) {
    require(from_the_start, "an honest card can be attached to");
    require(!device.error().next_step.empty() && !device.error().message.empty(), "an error says all");
    return;
  }
  mutator.begin(card.window(kSlot));
  Driver driver(input, card, **device);
  constexpr unsigned kMostSteps = 48;
  for (unsigned i = 0; i < kMostSteps && !input.empty(); ++i) driver.step();
  device->reset();
  Driver::expect_all_ended(driver.take_sinks());
}
