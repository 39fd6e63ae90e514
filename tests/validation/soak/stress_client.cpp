// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/soak/stress_client.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "host_driver/base/timeouts.hpp"
#include "tests/support/admin_requests.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/card_fixture.hpp"

namespace svp::soak {

using campaign::BlockBuilder;
using campaign::TestStream;
using wire::ControlBlock;
using wire::Outcome;
using wire::Status;

namespace {

using Clock = Device::Clock;

// What an owner does by itself, each every so many rounds: co-prime, so that every combination comes.
constexpr std::uint64_t kRegionEvery = 5;
constexpr std::uint64_t kStreamEvery = 7;
constexpr std::uint64_t kQueueEvery = 29;
constexpr std::uint64_t kAttachEvery = 53;

constexpr std::uint64_t kManySlices = 1'000'000;

// Places in host memory and in the tensor region (4 MiB); the lower half is what is sent, the upper what comes back.
constexpr std::uint64_t kHalf = 2 * wire::kMiB;
constexpr std::uint64_t kMostBytes = 256 * wire::kKiB;

std::string function_name(unsigned function) { return function == 0 ? "PF" : "VF" + std::to_string(function); }

// Of the thread that runs hart 0, which answers everything.
CpuWait cpu_wait_of(Card& card) {
  const auto harts = card.machine().hart_threads();
  return harts && !harts->empty() ? CpuWait(card.machine().pid(), harts->front().host_thread) : CpuWait();
}

std::string text_of(Outcome outcome, Status status) {
  std::string text(wire::name(outcome));
  if (status != Status::None) text.append(" (").append(wire::name(status)).append(")");
  return text;
}

}  // namespace

StressClient::StressClient(Card& card, unsigned function, std::uint64_t seed, const DisturbanceTracker& tracker)
    : card_(card),
      function_(function),
      target_(function == 0 ? wire::kTargetPhysical : wire::target_of_virtual(function)),
      tracker_(tracker),
      random_(seed) {
  report_.function = function_name(function);
}

StressClient::~StressClient() { detach(); }

void StressClient::complain(const std::string& what) {
  ++report_.complained;
  complained_ = true;
  if (report_.complaints.size() < kMostComplaints) {
    report_.complaints.push_back(report_.function + ", round " + std::to_string(rounds_.load()) + ": " + what);
  }
}

void StressClient::unexpected(const std::string& what) {
  if (strict_ && undisturbed()) complain(what + ", and nobody had disturbed it");
  start_over_ = true;
}

bool StressClient::starved() { return cpu_wait_.total() - waited_before_ >= soak_bounds::kStarved; }

// A bound is a time, and a card that the machine does not let run is late and nothing else.
void StressClient::too_late(const std::string& what) {
  if (!starved()) return unexpected(what);
  ++report_.starved;
  start_over_ = true;
}

bool StressClient::wait_fairly(const std::function<bool(std::chrono::nanoseconds)>& wait) {
  const auto began = Clock::now();
  const auto without_cpu = cpu_wait_.total();
  std::chrono::nanoseconds left = soak_bounds::kTimeout;
  while (left > std::chrono::nanoseconds{0} && Clock::now() - began < soak_bounds::kLongestWait) {
    if (wait(left)) return true;
    left = soak_bounds::kTimeout - ((Clock::now() - began) - (cpu_wait_.total() - without_cpu));
    left = std::min<std::chrono::nanoseconds>(left, soak_bounds::kTimeout);
  }
  // What was waited is judged as it is, unless the machine kept the card from running for all of the time.
  if (left <= std::chrono::nanoseconds{0}) waited_before_ = cpu_wait_.total();
  return false;
}

// ---- accounts -------------------------------------------------------------------------------------------------------

void StressClient::count_ends() {
  const auto fresh = stream_->endings(counted_);
  counted_ += fresh.size();
  count(fresh);
}

void StressClient::count(const std::vector<wire::Completion>& ends) {
  for (const wire::Completion& end : ends) {
    ++report_.outcomes[std::string(wire::name(end.outcome))];
    ++since_attached_[static_cast<std::size_t>(end.outcome)];
  }
}

// What the streams still have on their way ends here: with their device.
void StressClient::close_accounts() {
  end_waiter();
  if (!stream_) return;
  close_accounts(*stream_);
  count_ends();
}

void StressClient::close_accounts(TestStream& stream) {
  if (!stream.all_ended()) device_->close();
  report_.blocks += stream.submitted();
  if (stream.all_ended()) return;
  complain(std::to_string(stream.submitted()) + " blocks were submitted, " + std::to_string(stream.ended()) +
           " have ended");
}

void StressClient::end_waiter() {
  if (!waiter_) return;
  close_accounts(*waiter_);
  count(waiter_->endings());
  waiter_.reset();
}

// ---- the function ---------------------------------------------------------------------------------------------------

bool StressClient::attach(const std::atomic<bool>& stop) {
  const auto limit = Clock::now() + soak_bounds::kAttach;
  while (!stop && Clock::now() < limit) {
    mark_ = attached_ = tracker_.mark(target_);
    strict_ = false;
    cpu_wait_ = cpu_wait_of(card_);
    waited_before_ = cpu_wait_.total();
    try {
      auto opened = function_ == 0 ? card_.open_physical() : card_.open_virtual(function_);
      device_ = value_or_throw(std::move(opened));
      builder_ = std::make_unique<BlockBuilder>(*device_);
      stream_ = std::make_unique<TestStream>(*device_);
      since_attached_ = {};
      counted_ = 0;
      campaign::load_image(*builder_, *stream_, 0, campaign::kernel_image(card_, "spin"));
      count_ends();
      sequence_ = stream_->ended();
      spin_bytes_ = campaign::kernel_image(card_, "spin").size();
      region_ = builder_->tensor().base.region_id;
      ++report_.attachments;
      start_over_ = false;
      strict_ = true;
      return true;
    } catch (const Error& error) {
      const bool no_answer = error.info().outcome == Outcome::Indeterminate;
      if (no_answer && starved()) {
        ++report_.starved;
      } else if (undisturbed()) {
        complain(std::string("attaching failed, and nobody had disturbed it: ") + error.what());
      }
    }
    detach();
    std::this_thread::sleep_for(kAttachAgain);  // bounded: by the loop's limit
  }
  if (!stop) complain("could not attach in " + std::to_string(soak_bounds::kAttach.count()) + " s");
  return false;
}

void StressClient::detach() {
  region_ = kNoRegion;
  close_accounts();
  stream_.reset();
  builder_.reset();
  device_.reset();
}

void StressClient::play(const std::atomic<bool>& stop) noexcept {
  try {
    start_over_ = true;
    while (!stop) {
      if (start_over_) {
        detach();
        if (!attach(stop)) break;
      }
      round();
      publish();
    }
    detach();
  } catch (const std::exception& error) {
    complain(std::string("not a typed error: ") + error.what());
  }
}

void StressClient::publish() {
  const std::lock_guard guard(published_mutex_);
  published_ = report_;
}

void StressClient::round() {
  ++rounds_;
  waited_before_ = cpu_wait_.total();
  if (!undisturbed()) {
    mark_ = tracker_.mark(target_);
    strict_ = false;
    device_->check();
  }
  try {
    if (undisturbed() && !strict_) {
      show_whole();
    } else {
      any_batch();
    }
    if (!start_over_) housekeeping();
  } catch (const Error& error) {
    const bool no_answer = error.info().outcome == Outcome::Indeterminate;
    no_answer ? too_late(error.what()) : unexpected(error.what());
  }
}

// A disturbance may leave damage that lasts until the function's reset (an entry of the region table), and a batch that
// does not use what is damaged ends as expected. So after one, every region is used; only from then on nothing is
// excused.
void StressClient::show_whole() {
  move_data();
  if (!start_over_) endless();
  strict_ = !start_over_ && undisturbed();
}

void StressClient::any_batch() {
  switch (draw(16)) {
    case 0: return refused();
    case 1: return endless();
    case 2: return cancelled();
    case 3: return reset_in_flight();
    case 4: return many_nops();
    case 5: return waiting();
    case 6:
    case 7: return fill_and_read();
    default: return move_data();
  }
}

void StressClient::housekeeping() {
  const std::uint64_t round = rounds_.load();
  if (round % kRegionEvery == 0) {
    const std::uint64_t bytes = (1 + draw(8)) * wire::kGranuleBytes;
    value_or_throw(device_->release_region(value_or_throw(device_->acquire_region(RegionType::Tensor, bytes))));
    ++report_.regions;
  }
  if (round % kStreamEvery == 0) {
    value_or_throw(device_->close_stream(value_or_throw(device_->open_stream(StreamPriority::High))));
    reset_stream();
  }
  if (round % kQueueEvery == 0) {
    value_or_throw(device_->reset_queues());
    sequence_ = 0;
    ++report_.queue_resets;
  }
  if (round % kAttachEvery == 0) {
    compare_statistics();
    detach();
    ++report_.function_resets;
    start_over_ = true;
  }
}

void StressClient::reset_stream() {
  value_or_throw(stream_->reset());
  sequence_ = 0;
  ++report_.stream_resets;
}

void StressClient::compare_statistics() {
  const auto reply = device_->card_statistics();
  if (!reply) {
    const bool no_answer = reply.error().outcome == Outcome::Indeterminate;
    return no_answer ? too_late(reply.error().message) : unexpected(reply.error().message);
  }
  const auto& card = reply->values.stats;
  const auto seen = [&](Outcome outcome) { return since_attached_[static_cast<std::size_t>(outcome)]; };
  const bool same = card.completed == seen(Outcome::Ok) &&
                    card.rejected + card.aborted == seen(Outcome::Rejected) + seen(Outcome::Aborted) &&
                    card.failed == seen(Outcome::Fault) + seen(Outcome::Timeout);
  if (!tracker_.undisturbed_since(target_, attached_)) return;
  if (same) {
    ++report_.statistics;
  } else {
    complain("the card counted " + std::to_string(card.completed) + " OK, " + std::to_string(card.rejected) +
             " rejected, " + std::to_string(card.aborted) + " aborted, " + std::to_string(card.failed) +
             " failed; its owner " + std::to_string(seen(Outcome::Ok)) + ", " +
             std::to_string(seen(Outcome::Rejected)) + ", " + std::to_string(seen(Outcome::Aborted)) + ", " +
             std::to_string(seen(Outcome::Fault) + seen(Outcome::Timeout)));
  }
}

// ---- batches --------------------------------------------------------------------------------------------------------

void StressClient::move_data() {
  const std::uint64_t bytes = (1 + draw(kMostBytes / wire::kStickBytes)) * wire::kStickBytes;
  const std::uint64_t from = draw((kHalf - bytes) / wire::kStickBytes) * wire::kStickBytes;
  const std::uint64_t at = draw((kHalf - bytes) / wire::kStickBytes) * wire::kStickBytes;
  const auto out = builder_->host_words(from, bytes);
  for (auto& word : out) word = random_();
  std::ranges::fill(builder_->host_words(kHalf + from, bytes), 0);
  Batch batch;
  batch.add(BlockBuilder::dma(builder_->host(from), builder_->tensor(at), bytes));
  batch.add(BlockBuilder::dma(builder_->tensor(at), builder_->tensor(kHalf + at), bytes));
  batch.add(BlockBuilder::dma(builder_->tensor(kHalf + at), builder_->host(kHalf + from), bytes));
  if (perform(batch)) compare(out.data(), kHalf + from, bytes);
}

void StressClient::fill_and_read() {
  const std::uint64_t bytes = (1 + draw(kMostBytes / wire::kStickBytes)) * wire::kStickBytes;
  const std::uint64_t pattern = random_();
  Batch batch;
  batch.add(BlockBuilder::fill(builder_->tensor(0), bytes, pattern));
  batch.add(BlockBuilder::dma(builder_->tensor(0), builder_->host(0), bytes));
  if (!perform(batch)) return;
  const std::vector<std::uint64_t> expected(bytes / sizeof pattern, pattern);
  compare(expected.data(), 0, bytes);
}

void StressClient::many_nops() {
  Batch batch;
  for (std::uint64_t n = 1 + draw(64); n > 0; --n) batch.add(BlockBuilder::nop());
  (void)perform(batch);
}

void StressClient::refused() {
  ControlBlock bad = BlockBuilder::dma(builder_->host(0), builder_->tensor(0), 4096);
  Status why = Status::None;
  switch (draw(4)) {
    case 0: bad.payload.dma.destination.region_id = 1u << 20, why = Status::UnknownRegion; break;
    case 1: bad.payload.dma.bytes = ~std::uint64_t{0}, why = Status::NotHostMemory; break;
    case 2: bad.header.flags = 0x8000, why = Status::BadFlags; break;
    default: bad.header.opcode = static_cast<wire::Opcode>(0x77), why = Status::BadOpcode; break;
  }
  Batch batch;
  batch.add(bad, Outcome::Rejected, why);
  batch.add(BlockBuilder::nop(), Outcome::Aborted);
  if (perform(batch)) reset_stream();
}

void StressClient::endless() {
  Batch batch;
  batch.add(builder_->compute(0, spin_bytes_, 1, 1), Outcome::Timeout, Status::WatchdogExpired);
  if (perform(batch)) reset_stream();
}

void StressClient::cancelled() {
  const std::size_t before = stream_->ended();
  Batch batch;
  batch.add(builder_->compute(0, spin_bytes_, 1, kManySlices), Outcome::Fault, Status::Stopped);
  batch.add(BlockBuilder::nop(), Outcome::Aborted);
  if (!stream_->submit(batch.blocks)) return unexpected("no room for two blocks");
  // The test stream's blocks are numbered from 1 since its last reset, and every block before has ended.
  const auto reply = test::cancel(*device_, stream_->stream(), sequence_ + 1);
  sequence_ += 2;
  if (reply.outcome != Outcome::Ok) unexpected("a cancel ended " + std::string(wire::name(reply.status)));
  if (judge(batch, before)) reset_stream();
}

void StressClient::reset_in_flight() {
  const std::size_t before = stream_->ended();
  Batch batch;
  batch.add(builder_->compute(0, spin_bytes_, 1, kManySlices), Outcome::Fault, Status::Stopped);
  for (std::uint64_t n = draw(32); n > 0; --n) batch.add(BlockBuilder::nop(), Outcome::Aborted);
  if (!stream_->submit(batch.blocks)) return unexpected("no room for a few blocks");
  const bool started = wait_fairly([&](auto bound) { return stream_->wait_started(sequence_ + 1, bound); });
  if (!started) too_late("a kernel did not begin");
  reset_stream();
  (void)judge(batch, before);
}

// A second stream waits for the test stream, whose signal lies behind a kernel that never ends; one of four ways ends
// that, or the function is let go of meanwhile. Or nothing is in the signal's way.
void StressClient::waiting() {
  enum class Way : std::uint8_t { Signal, CancelAwaited, ResetAwaited, CancelWait, ResetWaiter, LetGo };
  const Way way = static_cast<Way>(draw(static_cast<std::uint64_t>(Way::LetGo) + 1));
  const bool signals = way == Way::Signal;
  const bool fails = way == Way::CancelAwaited || way == Way::ResetAwaited;
  const std::size_t before = stream_->ended();
  Batch awaited, wait;
  if (!signals) awaited.add(builder_->compute(0, spin_bytes_, 1, kManySlices), Outcome::Fault, Status::Stopped);
  awaited.add(BlockBuilder::event_signal(++signalled_), signals ? Outcome::Ok : Outcome::Aborted);
  const std::uint32_t incarnation = device_->stream_incarnation(stream_->stream());
  wait.add(BlockBuilder::event_wait(stream_->stream(), incarnation, signalled_),
           signals ? Outcome::Ok : Outcome::Aborted, fails ? Status::EventFailed : Status::None);
  wait.add(BlockBuilder::nop(), signals || way == Way::CancelWait ? Outcome::Ok : Outcome::Aborted);

  waiter_ = std::make_unique<TestStream>(*device_);
  if (!waiter_->submit(wait.blocks) || !stream_->submit(awaited.blocks)) return unexpected("no room for four blocks");
  const std::uint64_t first = sequence_ + 1;
  sequence_ += awaited.blocks.size();
  // The card has taken the wait, which came before, when it begins with the kernel.
  if (!signals && !wait_fairly([&](auto bound) { return stream_->wait_started(first, bound); })) {
    return too_late("a kernel did not begin");
  }
  const auto cancel = [&](const TestStream& stream, std::uint64_t sequence) {
    const auto reply = test::cancel(*device_, stream.stream(), sequence);
    if (reply.outcome != Outcome::Ok) unexpected("a cancel ended " + std::string(wire::name(reply.status)));
  };
  switch (way) {
    case Way::Signal:
    case Way::CancelAwaited: break;
    case Way::ResetAwaited: reset_stream(); break;
    case Way::CancelWait: cancel(*waiter_, 1); break;
    case Way::ResetWaiter: value_or_throw(waiter_->reset()); break;
    case Way::LetGo:
      ++report_.waits;
      start_over_ = true;
      return;
  }
  // Where the wait alone was ended, it ends before the kernel does.
  bool right = !start_over_;
  if (way != Way::CancelAwaited) right = right && judge(*waiter_, wait, 0);
  if (!signals && way != Way::ResetAwaited) cancel(*stream_, first);
  if (way == Way::CancelAwaited) right = right && judge(*waiter_, wait, 0);
  right = right && judge(awaited, before);
  report_.waits += right ? 1 : 0;
  end_waiter();
  if (right && !signals && way != Way::ResetAwaited) reset_stream();
}

bool StressClient::perform(const Batch& batch) {
  const std::size_t before = stream_->ended();
  if (!stream_->submit(batch.blocks)) {
    unexpected("no room for " + std::to_string(batch.blocks.size()) + " blocks");
    return false;
  }
  sequence_ += batch.blocks.size();
  return judge(batch, before);
}

bool StressClient::judge(TestStream& stream, const Batch& batch, std::size_t from) {
  const std::size_t count = batch.blocks.size();
  ++report_.batches;
  if (!wait_fairly([&](auto bound) { return stream.wait_ended(from + count, bound); })) {
    too_late(std::to_string(from + count - stream.ended()) + " blocks of " + std::to_string(count) +
             " did not end in " + std::to_string(soak_bounds::kTimeout.count()) + " s");
    return false;
  }
  const auto ends = stream.endings(from);
  count_ends();
  for (std::size_t i = 0; i < count; ++i) {
    const End& wanted = batch.ends[i];
    const bool right =
        ends[i].outcome == wanted.outcome && (wanted.status == Status::None || wanted.status == ends[i].status);
    if (right) continue;
    const std::string what = "block " + std::to_string(i) + " of " + std::to_string(count) + " ended " +
                             text_of(ends[i].outcome, ends[i].status) + " instead of " +
                             text_of(wanted.outcome, wanted.status);
    // What cannot come of any disturbance.
    const bool impossible = (wanted.outcome != Outcome::Ok && ends[i].outcome == Outcome::Ok) ||
                            (ends[i].outcome >= Outcome::Lost && !device_->failure());
    if (impossible) complain(what);
    unexpected(what);
    return false;
  }
  report_.strict += strict_ && undisturbed() ? 1 : 0;
  return true;
}

void StressClient::compare(const void* expected, std::uint64_t at, std::uint64_t bytes) {
  const auto found = builder_->host_words(at, bytes);
  report_.bytes_checked += bytes;
  if (std::memcmp(expected, found.data(), bytes) == 0) return;
  complain(std::to_string(bytes) + " bytes came back wrong, of blocks that ended OK");
  start_over_ = true;
}

}  // namespace svp::soak
