// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/flood_sources.hpp"
#include "tests/bench/card/block_client.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
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

namespace bench {

namespace {

using Block = wire::ControlBlock;

// ---- the ring of control blocks -----------------------------------------------------------------------------------------

constexpr unsigned kLanes = wire::kControlBlockSlots / wire::kStreamCredits;  // streams that fill a ring

class Lane final : public svp::CompletionSink {
 public:
  void on_completion(const wire::Completion& completion) noexcept override {
    if (completion.outcome != wire::Outcome::Ok) not_ok_.store(true, std::memory_order_relaxed);
    ended_.fetch_add(1, std::memory_order_release);
  }
  std::uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
  bool all_ended() const { return ended() == submitted; }
  bool poisoned() const { return not_ok_.load(std::memory_order_relaxed); }
  void forgive() { not_ok_.store(false, std::memory_order_relaxed); }

  std::uint32_t stream = 0;
  std::uint64_t submitted = 0;

 private:
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<bool> not_ok_{false};
};

// Keeps a ring full: as many streams as it takes, each with all of its credits in use.
class RingSource : public FloodSource {
 public:
  explicit RingSource(std::unique_ptr<svp::Device> device) : device_(std::move(device)) {
    for (Lane& lane : lanes_) lane.stream = svp::value_or_throw(device_->open_stream(svp::StreamPriority::Low));
  }
  void fill() override {
    for (unsigned l = 0; l < kLanes; ++l) {
      Lane& lane = lanes_[l];
      if (poisons(l) && lane.poisoned() && lane.all_ended()) clear(lane);
      put(l, lane);
    }
  }
  void wait_for_room(unsigned milliseconds) override {
    const std::uint64_t before = ended();
    (void)device_->wait_until([&] { return ended() != before; },
                              Clock::now() + std::chrono::milliseconds(milliseconds));
    require(!device_->failure(), "the flooding function has failed");
  }
  void drain() override {
    for (Lane& lane : lanes_) {
      clear(lane);
      const auto ended = device_->wait_until([&] { return lane.all_ended(); }, Clock::now() + bench_bounds::kDrain);
      require(ended == svp::WaitStatus::Done, "blocks of a reset stream did not end");
    }
  }
  std::uint64_t ended() const override {
    std::uint64_t total = 0;
    for (const Lane& lane : lanes_) total += lane.ended();
    return total;
  }

 protected:
  // The block to submit next on a lane, whether it goes out as it is, and whether the lane's stream may be poisoned by it.
  virtual const Block& next(unsigned lane) = 0;
  virtual bool verbatim(unsigned) const { return false; }
  virtual bool poisons(unsigned) const { return false; }
  svp::Device& device() { return *device_; }
  // One block before the flood.
  void run(const Block& block) {
    const svp::ControlBlockRequest request{&block, &lanes_[0]};
    lanes_[0].submitted += svp::value_or_throw(device_->submit(lanes_[0].stream, {&request, 1}));
    const auto ended = device_->wait_until([&] { return lanes_[0].all_ended(); }, Clock::now() + bench_bounds::kDrain);
    require(ended == svp::WaitStatus::Done && !lanes_[0].poisoned(), "a flood could not be prepared");
  }

  // An image to the beginning of a Program region, before the flood.
  void load(const svp::Region& region, std::span<const std::byte> image) {
    std::memcpy(device().host_memory().data(), image.data(), image.size());
    Block copy{};
    copy.header.opcode = wire::Opcode::Dma;
    copy.payload.dma = {
        .source = host(0), .destination = endpoint(region, 0), .bytes = image.size(), .checksum = 0, .flags = 0};
    run(copy);
  }

  wire::Endpoint endpoint(const svp::Region& region, std::uint64_t offset) const {
    return {region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
  }
  wire::Endpoint host(std::uint64_t offset) const {
    return {0, device_->host_memory_offset() + offset, 0, wire::EndpointKind::HostMemory, {}};
  }

 private:
  void clear(Lane& lane) {
    svp::value_or_throw(device_->reset_stream(lane.stream));
    lane.forgive();
  }
  void put(unsigned index, Lane& lane) {
    constexpr unsigned kAtOnce = 16;
    for (std::array<svp::ControlBlockRequest, kAtOnce> requests;;) {  // bounded: ends when the ring takes no more
      for (auto& request : requests) request = {&next(index), &lane};
      const std::size_t taken = svp::value_or_throw(verbatim(index) ? device_->submit_verbatim(lane.stream, requests)
                                                                    : device_->submit(lane.stream, requests));
      lane.submitted += taken;
      if (taken < kAtOnce) return;
    }
  }

  std::array<Lane, kLanes> lanes_;
  std::unique_ptr<svp::Device> device_;  // goes before the lanes that it calls
};

class CopySource final : public RingSource {
 public:
  static constexpr std::uint64_t kBytes = 64 * wire::kMiB;
  explicit CopySource(std::unique_ptr<svp::Device> attached) : RingSource(std::move(attached)) {
    const auto region = svp::value_or_throw(device().acquire_region(wire::RegionType::Tensor, kBytes));
    copy_.header.opcode = wire::Opcode::Dma;
    copy_.payload.dma = {
        .source = host(0), .destination = endpoint(region, 0), .bytes = kBytes, .checksum = 0, .flags = 0};
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
    spin_.header.opcode = wire::Opcode::Compute;
    spin_.header.budget = kBudget;
    spin_.payload.compute.image = endpoint(region, 0);
    spin_.payload.compute.image_bytes = image.size();
    spin_.payload.compute.core_mask = 1;
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
    launch_.header.opcode = wire::Opcode::Compute;
    launch_.payload.compute.image = endpoint(region, 0);
    launch_.payload.compute.image_bytes = wire::kMaxImageBytes;
    launch_.payload.compute.core_mask = 1;
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
  bool poisons(unsigned lane) const override { return lane == 0; }
  bool verbatim(unsigned lane) const override { return lane != 0; }
  const Block& next(unsigned lane) override { return lane == 0 ? poisoning_ : bad_[turn_++ % bad_.size()]; }

  std::array<Block, 5> bad_{};
  Block poisoning_{};
  std::size_t turn_ = 0;
};

// ---- admin and doorbells: below the driver, which would wait for each reply -------------------------------------------------

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
      wire::AdminRequest request{};
      request.command = wire::AdminCommand::Query;
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

// ---- resets -------------------------------------------------------------------------------------------------------------

class ResetSource final : public FloodSource {
 public:
  ResetSource(svp::Card& card, unsigned vf) : card_(card), vf_(vf), management_(card) { populate(); }

  // A turn: the owner attaches and touches its memory, M resets the function, the owner finds out.
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
    Block block{};
    block.header.opcode = wire::Opcode::Fill;
    block.payload.fill.destination = {region.base.region_id, 0, region.generation, wire::EndpointKind::Region, {}};
    block.payload.fill.bytes = kBytes;
    client.run(block);
    svp::value_or_throw(device->release_region(region));
    management_.wait_scrubbed();
  }

  // 16 MiB to scrub for the price of eight sticks: what the burst costs others is the reset, not the work before it.
  static constexpr std::uint64_t kGranules = 8;
  void touch(svp::Device& device) {
    const auto region =
        svp::value_or_throw(device.acquire_region(wire::RegionType::Tensor, kGranules * wire::kGranuleBytes));
    Lane lane;
    std::array<Block, kGranules> blocks{};
    std::array<svp::ControlBlockRequest, kGranules> requests;
    for (std::uint64_t g = 0; g < kGranules; ++g) {
      const wire::Endpoint at{
          region.base.region_id, g * wire::kGranuleBytes, region.generation, wire::EndpointKind::Region, {}};
      blocks[g].header.opcode = wire::Opcode::Fill;
      blocks[g].payload.fill = {
          .destination = at, .bytes = wire::kStickBytes, .pattern = ~std::uint64_t{0}, .reserved = {}};
      requests[g] = {&blocks[g], &lane};
    }
    lane.submitted = svp::value_or_throw(device.submit(0, requests));
    const auto status = device.wait_until([&] { return lane.all_ended(); }, Clock::now() + bench_bounds::kDrain);
    if (status != svp::WaitStatus::Done) std::abort();  // the card would call a lane that is gone
    require(lane.submitted == kGranules && !lane.poisoned(), "the burst's owner could not touch its memory");
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
