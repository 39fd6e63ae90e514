// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/flood.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/bench/card/flood_sources.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bounds.hpp"

namespace bench {

namespace {

// From a wish to its fulfilment: filling takes a millisecond, draining two slices of a kernel per stream.
constexpr std::chrono::seconds kBound = bench_bounds::kBlock;
constexpr unsigned kTimeout = 2;  // milliseconds between two looks at what the owner wants

// The least a thread can ask for without leaving the ordinary scheduler.
void yield_to_everybody() { (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19); }

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  require(!bytes.empty(), "no kernel image " + path.string());
  std::vector<std::byte> image(bytes.size());
  std::memcpy(image.data(), bytes.data(), bytes.size());
  return image;
}

}  // namespace

std::string_view name(FloodKind kind) {
  switch (kind) {
    case FloodKind::Copies: return "64 MiB copies";
    case FloodKind::Kernels: return "endless kernels";
    case FloodKind::Admin: return "admin commands";
    case FloodKind::Doorbells: return "doorbells";
    case FloodKind::Rejected: return "rejected blocks";
    case FloodKind::Images: return "spoilt images";
  }
  return "";
}

Flood::Flood(std::unique_ptr<FloodSource> source) : source_(std::move(source)) {
  thread_ = std::thread([this] { run(); });
}

Flood::~Flood() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::Over) state_ = State::Over;
  }
  changed_.notify_all();
  thread_.join();  // bounded: its state is Over; every step of a flood is bounded by bench_bounds
}

void Flood::go_to(State wanted, State reached) {
  std::unique_lock lock(mutex_);
  require(failure_.empty(), "a flooding neighbour has failed: " + failure_);
  state_ = wanted;
  changed_.notify_all();
  const bool done = changed_.wait_for(lock, kBound, [&] { return state_ == reached || !failure_.empty(); });
  require(failure_.empty(), "a flooding neighbour has failed: " + failure_);
  require(done, "a flooding neighbour did not handle in time");
}

void Flood::start() { go_to(State::Starting, State::Flooding); }
void Flood::stop() { go_to(State::Stopping, State::Idle); }

void Flood::run() {
  yield_to_everybody();
  const auto tell = [&](State from, State to) {
    const std::lock_guard lock(mutex_);
    if (state_ == from) state_ = to;
    changed_.notify_all();
  };
  try {
    while (state_ != State::Over) {
      if (state_ == State::Idle) {
        std::unique_lock lock(mutex_);
        // bounded: its owner changes the state, at the latest to Over when it goes
        changed_.wait(lock, [&] { return state_ != State::Idle; });
      } else if (state_ == State::Stopping) {
        source_->drain();
        ended_.store(source_->ended(), std::memory_order_relaxed);
        tell(State::Stopping, State::Idle);
      } else {
        source_->fill();
        if (state_ == State::Starting) tell(State::Starting, State::Flooding);
        source_->wait_for_room(kTimeout);
      }
    }
    source_->drain();
    source_.reset();
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
    changed_.notify_all();
  }
}

Floods::Floods(svp::Card& card, unsigned first_vf, unsigned count, FloodKind kind) {
  const auto kernel = read_file(card.options().firmware.parent_path() / "kernels" / "spin.img");
  for (unsigned i = 0; i < count; ++i) {
    floods_.push_back(std::make_unique<Flood>(make_flood_source(card, first_vf + i, kind, kernel)));
  }
}

void Floods::start() {
  for (const auto& flood : floods_) flood->start();
}
void Floods::stop() {
  for (const auto& flood : floods_) flood->stop();
}

std::uint64_t Floods::ended() const {
  std::uint64_t total = 0;
  for (const auto& flood : floods_) {
    require(flood->ended() != 0, "a flooding neighbour has done nothing");
    total += flood->ended();
  }
  return total;
}

}  // namespace bench
