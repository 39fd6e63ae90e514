// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/flood_sources.hpp"
#include "tests/bench/card/block_client.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/device/admin_port.hpp"
#include "host_driver/device/bring_up.hpp"
#include "host_driver/transport/control_channel.hpp"
#include "host_driver/transport/doorbells.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/kernel_abi.hpp"
#include "tests/bench/card/management.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bounds.hpp"
#include "tests/support/admin_requests.hpp"
#include "tests/support/block_builder.hpp"
#include "tests/support/block_stream.hpp"

namespace bench {

namespace {

using svp::test::Blocks;
using svp::test::CountedStream;
using svp::test::endpoint_of;
using svp::test::host_endpoint;
using Block = wire::ControlBlock;

// ---- the ring of control blocks -------------------------------------------------------------------------------------

constexpr unsigned kStreams = wire::kControlBlockSlots / wire::kStreamCredits;  // that fill a ring

// Keeps a ring full: as many streams as it takes, each with all of its credits in use.
class RingSource : public FloodSource {
 public:
  explicit RingSource(std::unique_ptr<svp::Device> device) : device_(std::move(device)) {
    for (unsigned i = 0; i < kStreams; ++i) streams_.emplace_back(*device_);
  }
  void fill() override {
    for (unsigned i = 0; i < kStreams; ++i) {
      if (poisons(i) && streams_[i].sink().not_ok() != 0 && streams_[i].all_ended()) clear(streams_[i]);
      put(i);
    }
  }
  void wait_for_room(unsigned milliseconds) override {
    const std::uint64_t before = ended();
    (void)device_->wait_until([&] { return ended() != before; },
                              Clock::now() + std::chrono::milliseconds(milliseconds));
    require(!device_->failure(), "the flooding function has failed");
  }
  void drain() override {
    for (auto& stream : streams_) {
      clear(stream);
      require(stream.wait_all(bench_bounds::kDrain), "blocks of a reset stream did not end");
    }
  }
  std::uint64_t ended() const override {
    std::uint64_t total = 0;
    for (const auto& stream : streams_) total += stream.ended();
    return total;
  }

 protected:
  // The block to submit next on a stream, whether it goes out as it is, and whether the stream may be poisoned by it.
  virtual const Block& next(unsigned stream) = 0;
  virtual bool verbatim(unsigned) const { return false; }
  virtual bool poisons(unsigned) const { return false; }
  svp::Device& device() { return *device_; }
  // An image to the beginning of a Program region, before the flood.
  void load(const svp::Region& region, std::span<const std::byte> image) {
    std::memcpy(device().host_memory().data(), image.data(), image.size());
    auto& stream = streams_.front();
    stream.submit(Blocks::dma(host_endpoint(device(), 0), endpoint_of(region), image.size()));
    require(stream.wait_all(bench_bounds::kDrain) && stream.sink().not_ok() == 0, "a flood could not be prepared");
  }

 private:
  static void clear(CountedStream& stream) {
    svp::value_or_throw(stream.reset());
    stream.sink().forgive();
  }
  void put(unsigned index) {
    constexpr unsigned kAtOnce = 16;
    CountedStream& stream = streams_[index];
    for (std::array<svp::ControlBlockRequest, kAtOnce> requests;;) {  // bounded: ends when the ring takes no more
      for (auto& request : requests) request = stream.request(next(index));
      const std::size_t taken = verbatim(index) ? stream.submit_verbatim(requests) : stream.submit(requests);
      if (taken < kAtOnce) return;
    }
  }

  std::unique_ptr<svp::Device> device_;
  std::deque<CountedStream> streams_;
};

class CopySource final : public RingSource {
 public:
  static constexpr std::uint64_t kBytes = 64 * wire::kMiB;
  explicit CopySource(std::unique_ptr<svp::Device> attached) : RingSource(std::move(attached)) {
    const auto region = svp::value_or_throw(device().acquire_region(wire::RegionType::Tensor, kBytes));
    copy_ = Blocks::dma(host_endpoint(device(), 0), endpoint_of(region), kBytes);
  }

 private:
  const Block& next(unsigned) override { return copy_; }
  Block copy_{};
};

class KernelSource final : public RingSource {
 public:
  // Slices that a kernel is given before the watchdog's warning; it dies at twice that.
  static constexpr std::uint64_t kBudget = 20;
  KernelSource(std::unique_ptr<svp::Device> attached, std::span<const std::byte> image)
      : RingSource(std::move(attached)) {
    const auto region = svp::value_or_throw(device().acquire_region(wire::RegionType::Program, 2 * wire::kMiB));
    load(region, image);
    spin_ = Blocks::launch(endpoint_of(region), image.size(), 1, kBudget);
  }

 private:
  const Block& next(unsigned) override { return spin_; }
  bool poisons(unsigned) const override { return true; }  // the watchdog does

  Block spin_{};
};

class ImageSource final : public RingSource {
 public:
  ImageSource(std::unique_ptr<svp::Device> attached, std::span<const std::byte> kernel)
      : RingSource(std::move(attached)) {
    const auto region = svp::value_or_throw(device().acquire_region(wire::RegionType::Program, 2 * wire::kMiB));
    load(region, spoilt(kernel));
    launch_ = Blocks::launch(endpoint_of(region), wire::kMaxImageBytes);
  }

 private:
  const Block& next(unsigned) override { return launch_; }
  bool poisons(unsigned) const override { return true; }

  // A good header, and a byte behind it that nobody has summed.
  static std::vector<std::byte> spoilt(std::span<const std::byte> kernel) {
    std::vector<std::byte> image(kernel.begin(), kernel.end());
    image.resize(wire::kMaxImageBytes);
    wire::ImageHeader header;
    std::memcpy(&header, image.data(), sizeof header);
    header.image_bytes = image.size();
    std::memcpy(image.data(), &header, sizeof header);
    return image;
  }

  Block launch_{};
};

class RejectedSource final : public RingSource {
 public:
  explicit RejectedSource(std::unique_ptr<svp::Device> attached) : RingSource(std::move(attached)) {
    Block good{};
    good.header.magic = wire::kControlBlockMagic;
    good.header.sticks = 1;
    good.header.opcode = wire::Opcode::Nop;
    good.header.incarnation = 1;
    good.header.generation = device().config().generation;
    bad_.fill(good);
    bad_[0].header.magic ^= 1;
    bad_[1].header.sticks = 3;
    bad_[2].header.generation += 1;
    bad_[3].header.stream = wire::kStreamsPerFunction;
    bad_[4].header.incarnation += 7;
    poisoning_.header.opcode = wire::Opcode::Nop;
    poisoning_.header.flags = 0xFFFF;
  }

 private:
  // One stream is poisoned again and again; what goes through the others names no stream that exists.
  bool poisons(unsigned stream) const override { return stream == 0; }
  bool verbatim(unsigned stream) const override { return stream != 0; }
  const Block& next(unsigned stream) override { return stream == 0 ? poisoning_ : bad_[next_bad_++ % bad_.size()]; }

  std::array<Block, 5> bad_{};
  Block poisoning_{};
  std::size_t next_bad_ = 0;
};

// ---- admin and doorbells: below the driver, which would wait for each reply -----------------------------------------

svp::SlotHandle slot_of(svp::Card& card, unsigned vf) {
  auto slot = card.machine().slot(1 + vf);
  require(slot.has_value(), "no handle of the slot of VF " + std::to_string(vf));
  return *std::move(slot);
}

// A function brought up by hand: rings without a driver behind them.
class BareFunction {
 public:
  BareFunction(svp::Card& card, unsigned vf)
      : doorbells_(slot_of(card, vf), {}),
        window_(svp::value_or_throw(svp::Window::map(doorbells_.slot().window_fd(), doorbells_.slot().window_bytes()))),
        channel_(window_, doorbells_, -1, timeouts_),
        link_(svp::value_or_throw(svp::BringUp(*window_, channel_, doorbells_, -1, timeouts_, 0).run())) {}
  ~BareFunction() {
    (void)channel_.transact<wire::StatusValue>(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0},
                                               timeouts_.detach);
  }
  svp::Doorbells& doorbells() { return doorbells_; }
  svp::Window& window() { return *window_; }
  svp::FunctionLink& link() { return link_; }

 private:
  svp::Timeouts timeouts_;
  svp::Doorbells doorbells_;
  std::shared_ptr<svp::Window> window_;
  svp::ControlChannel channel_;
  svp::FunctionLink link_;
};

class AdminSource final : public FloodSource {
 public:
  AdminSource(svp::Card& card, unsigned vf)
      : function_(card, vf),
        port_(function_.window(), std::move(function_.link().queues[wire::kAdminQueue]),
              function_.link().config.generation) {}

  void fill() override {
    for (auto& ticket : tickets_) {
      if (ticket && ticket->state() == Ticket::State::Waiting) continue;
      if (ticket && ticket->reply().outcome == wire::Outcome::Ok) ++ended_;
      wire::AdminRequest request = svp::test::admin_request(wire::AdminCommand::Query);
      bool kick = false;
      ticket.emplace();
      require(port_.begin(request, *ticket, kick) == svp::AdminPort::Begin::Sent, "no room for an admin command");
      if (kick) function_.doorbells().ring();
    }
  }
  void wait_for_room(unsigned milliseconds) override { (void)harvest(std::chrono::milliseconds(milliseconds)); }
  void drain() override {
    const auto deadline = Clock::now() + bench_bounds::kDrain;
    while (port_.outstanding() != 0) {
      require(Clock::now() < deadline, "admin commands were not answered");
      (void)harvest(std::chrono::milliseconds(1));
    }
    for (auto& ticket : tickets_) {
      if (ticket && ticket->reply().outcome == wire::Outcome::Ok) ++ended_;
      ticket.reset();
    }
  }
  std::uint64_t ended() const override { return ended_; }

 private:
  using Ticket = svp::AdminPort::Ticket;

  std::size_t harvest(std::chrono::milliseconds bound) {
    const std::size_t there = port_.harvest();
    require(port_.violation().empty(), port_.violation());
    if (there != 0) return there;
    (void)function_.doorbells().sleep(-1, -1, bound);
    return port_.harvest();
  }

  BareFunction function_;
  svp::AdminPort port_;
  std::array<std::optional<Ticket>, wire::kAdminSlots> tickets_;
  std::uint64_t ended_ = 0;
};

class DoorbellSource final : public FloodSource {
 public:
  DoorbellSource(svp::Card& card, unsigned vf) : function_(card, vf) {}

  void fill() override {
    constexpr unsigned kAtOnce = 4096;
    for (unsigned i = 0; i < kAtOnce; ++i) {
      if (::write(doorbell(), kRing.data(), kRing.size()) < 0) return;  // as many as the pipe takes are pending
      ++ended_;
    }
  }
  void wait_for_room(unsigned milliseconds) override {
    pollfd entry{doorbell(), POLLOUT, 0};
    (void)::poll(&entry, 1, static_cast<int>(milliseconds));
  }
  void drain() override {}
  std::uint64_t ended() const override { return ended_; }

 private:
  static constexpr std::array<char, svp::kDoorbellBytes> kRing{};
  int doorbell() { return function_.doorbells().slot().doorbell_to_card(); }

  BareFunction function_;
  std::uint64_t ended_ = 0;
};

// ---- resets ---------------------------------------------------------------------------------------------------------

class ResetSource final : public FloodSource {
 public:
  ResetSource(svp::Card& card, unsigned vf) : card_(card), vf_(vf), management_(card) { populate(); }

  // A round: the owner attaches and touches its memory, M resets the function, the owner finds out.
  void fill() override {
    auto device = svp::value_or_throw(card_.open_virtual(vf_));
    touch(*device);
    management_.reset(wire::target_of_virtual(vf_));
    ++ended_;
  }
  void wait_for_room(unsigned) override {}
  void drain() override { management_.wait_scrubbed(); }
  std::uint64_t ended() const override { return ended_; }

 private:
  // What the burst touches, and more, has been touched before: to find memory for the first time costs the machine that
  // emulates the card up to 5 ms for 2 MiB, and that is no cost of a reset.
  void populate() {
    constexpr std::uint64_t kBytes = 256 * wire::kMiB;
    const auto device = svp::value_or_throw(card_.open_virtual(vf_));
    const auto region = svp::value_or_throw(device->acquire_region(wire::RegionType::Tensor, kBytes));
    BlockClient client(*device);
    client.run(Blocks::fill(endpoint_of(region), kBytes, 0));
    svp::value_or_throw(device->release_region(region));
    management_.wait_scrubbed();
  }

  // 16 MiB to scrub for the price of eight sticks: what the burst costs others is the reset, not the work before it.
  static constexpr std::uint64_t kGranules = 8;
  void touch(svp::Device& device) {
    const auto region =
        svp::value_or_throw(device.acquire_region(wire::RegionType::Tensor, kGranules * wire::kGranuleBytes));
    // On stream 0, which is open: opening one would be part of the burst.
    svp::test::CompletionCounter counter;
    std::array<Block, kGranules> blocks{};
    std::array<svp::ControlBlockRequest, kGranules> requests;
    for (std::uint64_t g = 0; g < kGranules; ++g) {
      blocks[g] = Blocks::fill(endpoint_of(region, g * wire::kGranuleBytes), wire::kStickBytes, ~std::uint64_t{0});
      requests[g] = {&blocks[g], &counter};
    }
    const std::size_t taken = svp::value_or_throw(device.submit(0, requests));
    const auto status =
        device.wait_until([&] { return counter.ended() == taken; }, Clock::now() + bench_bounds::kDrain);
    if (status != svp::WaitStatus::Done) std::abort();  // the card would call a counter that is gone
    require(taken == kGranules && counter.not_ok() == 0, "the burst's owner could not touch its memory");
  }

  svp::Card& card_;
  const unsigned vf_;
  Management management_;
  std::uint64_t ended_ = 0;
};

std::unique_ptr<svp::Device> open(svp::Card& card, unsigned vf) { return svp::value_or_throw(card.open_virtual(vf)); }

}  // namespace

std::unique_ptr<FloodSource> make_flood_source(svp::Card& card, unsigned vf, FloodKind kind,
                                               std::span<const std::byte> kernel) {
  switch (kind) {
    case FloodKind::Copies: return std::make_unique<CopySource>(open(card, vf));
    case FloodKind::Kernels: return std::make_unique<KernelSource>(open(card, vf), kernel);
    case FloodKind::Admin: return std::make_unique<AdminSource>(card, vf);
    case FloodKind::Doorbells: return std::make_unique<DoorbellSource>(card, vf);
    case FloodKind::Rejected: return std::make_unique<RejectedSource>(open(card, vf));
    case FloodKind::Images: return std::make_unique<ImageSource>(open(card, vf), kernel);
  }
  return nullptr;
}

std::unique_ptr<FloodSource> make_reset_burst(svp::Card& card, unsigned vf) {
  return std::make_unique<ResetSource>(card, vf);
}

}  // namespace bench
