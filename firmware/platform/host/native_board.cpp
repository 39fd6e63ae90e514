// SPDX-License-Identifier: Apache-2.0
#include "firmware/platform/host/native_board.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "firmware/core/timeouts.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/context.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/record.hpp"
#include "shared/crc32c.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/units.hpp"

namespace native {

namespace {

// The card's map: firmware memory below 4 GiB, regions above (protocol §6).
constexpr std::uint64_t kPageBase = 2 * wire::kGiB;
constexpr std::uint64_t kRegionBase = 4 * wire::kGiB;
constexpr unsigned kMaxHarts = 64;

struct Sleeper {
  std::mutex mutex;
  std::condition_variable condition;
  bool pending = false;
  bool masked = false;  // the hart's own
};

// Firmware memory below the regions, and the address spaces made of it. Any hart may fault pages in, so it is locked.
struct Pages {
  std::mutex mutex;
  std::byte* memory = nullptr;
  std::uint64_t used = 0;                            // high-water mark of the arena
  std::uint64_t in_use = 0;                          // bytes
  std::multimap<std::uint64_t, std::uint64_t> free;  // size → address
  struct Mapping {
    std::uint64_t bytes;
    std::uint64_t physical;
    hal::Protection protection;
  };
  std::uint64_t next_root = 1;
  std::map<std::uint64_t, std::map<std::uint64_t, Mapping>> roots;  // root → virtual address → mapping
};

struct State {
  BoardOptions options;
  std::byte* regions = nullptr;
  mutable Pages pages;
  std::atomic<std::uint64_t> overslept{0};
  std::vector<bool> mapped{};    // by slot; hart 0 only
  std::vector<bool> doorbell{};  // by fixed slot: open
  std::vector<std::byte> persistent = std::vector<std::byte>(64 * wire::kKiB);
  std::array<Sleeper, kMaxHarts> sleepers;
  std::array<std::atomic<wire::Waypoint>, kMaxHarts> waypoints{};
  std::optional<wire::FatalRecord> record{};
  std::atomic<std::uint64_t> worked_ticks{0};  // with a WorkClock
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

State* the_state = nullptr;
thread_local unsigned this_hart = 0;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "native board: %s\n", what);
  std::abort();
}

std::byte* reserve(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) die("no address space for card memory");
  return static_cast<std::byte*>(memory);
}

void work(std::uint64_t ticks) { the_state->worked_ticks.fetch_add(ticks, std::memory_order_relaxed); }

// What `bytes` of a bulk operation take.
void work_on(std::uint64_t bytes, std::uint64_t WorkClock::* bytes_per_tick) {
  const auto& clock = the_state->options.clock;
  if (clock) work(bytes / ((*clock).*bytes_per_tick));
}

void wake_hart(unsigned hart) {
  Sleeper& sleeper = the_state->sleepers[hart];
  {
    const std::lock_guard lock(sleeper.mutex);
    sleeper.pending = true;
  }
  sleeper.condition.notify_one();
}

// The mapping of a virtual address, or nullptr. The pages are locked.
const Pages::Mapping* find_mapping(Pages& pages, std::uint64_t root, std::uint64_t virtual_address,
                                   std::uint64_t* begin = nullptr) {
  const auto& mappings = pages.roots[root];
  auto at = mappings.upper_bound(virtual_address);
  if (at == mappings.begin()) return nullptr;
  --at;
  if (begin != nullptr) *begin = at->first;
  return virtual_address - at->first < at->second.bytes ? &at->second : nullptr;
}

hal::Stop play_planted(const hal::Context& context, std::uint64_t slice_ticks) {
  hal::Stop stop{};
  switch (static_cast<hal::Planted>(context.played[1] - 1)) {
    case hal::Planted::Hang:
      stop.reason = hal::StopReason::Timer;
      stop.ran_ticks = slice_ticks;
      return stop;
    case hal::Planted::Illegal: stop.status = wire::Status::IllegalInstruction; break;
    case hal::Planted::StrayLoad: stop.status = wire::Status::LoadFault; break;
  }
  stop.reason = hal::StopReason::Fault;
  stop.access = stop.status == wire::Status::LoadFault ? hal::Access::Load : hal::Access::Fetch;
  stop.ran_ticks = 1;
  return stop;
}

}  // namespace

Board::Board(BoardOptions options) {
  if (the_state != nullptr) die("a second board");
  the_state = new State;
  the_state->options = std::move(options);
  auto& windows = the_state->options.windows;
  the_state->doorbell.resize(windows.size());
  windows.resize(windows.size() + the_state->options.ports);
  the_state->mapped.resize(windows.size());
  the_state->regions = reserve(the_state->options.region_bytes);
  the_state->pages.memory = reserve(the_state->options.page_bytes);
}

Board::~Board() {
  ::munmap(the_state->regions, the_state->options.region_bytes);
  ::munmap(the_state->pages.memory, the_state->options.page_bytes);
  delete the_state;
  the_state = nullptr;
}

void Board::doorbell() { wake_hart(0); }
void Board::plug(unsigned slot, std::span<std::byte> window) { the_state->options.windows[slot] = window; }
bool Board::plugged(unsigned slot) const { return !the_state->options.windows[slot].empty(); }
void Board::leave_record(const wire::FatalRecord& record) { the_state->record = record; }
void Board::set_boot_arguments(std::string arguments) { the_state->options.boot_arguments = std::move(arguments); }
std::span<std::byte> Board::region_memory() { return {the_state->regions, the_state->options.region_bytes}; }
std::uint64_t Board::overslept() const { return the_state->overslept.load(); }
std::uint64_t Board::pages_in_use() const {
  const std::lock_guard lock(the_state->pages.mutex);
  return the_state->pages.in_use;
}
std::byte* Board::translate(std::uint64_t root, std::uint64_t virtual_address) const {
  const std::lock_guard lock(the_state->pages.mutex);
  std::uint64_t begin = 0;
  const auto* mapping = find_mapping(the_state->pages, root, virtual_address, &begin);
  return mapping != nullptr ? hal::pointer(mapping->physical + (virtual_address - begin)) : nullptr;
}

void become_hart(unsigned hart) { this_hart = hart; }

}  // namespace native

namespace hal {

using native::the_state;

// ---- array.hpp: no native card has one ------------------------------------------------------------------------------

void find_array() {}
std::uint32_t array_version() { return 0; }

// ---- memory.hpp -----------------------------------------------------------------------------------------------------

std::byte* pointer(PhysicalAddress address) {
  return address < native::kRegionBase ? the_state->pages.memory + (address - native::kPageBase)
                                       : the_state->regions + (address - native::kRegionBase);
}
PhysicalAddress address_of(const std::byte* pointer) {
  const std::byte* pages = the_state->pages.memory;
  if (pointer >= pages && pointer < pages + the_state->options.page_bytes) {
    return static_cast<PhysicalAddress>(pointer - pages) + native::kPageBase;
  }
  return static_cast<PhysicalAddress>(pointer - the_state->regions) + native::kRegionBase;
}
MemoryRange region_memory() { return {native::kRegionBase, native::kRegionBase + the_state->options.region_bytes}; }
std::span<std::byte> window(unsigned slot) {
  return slot < slot_count() && the_state->mapped[slot] ? the_state->options.windows[slot] : std::span<std::byte>{};
}

// The other side may write the same window bytes meanwhile: that is its right, and not a race of ours. What we read is
// only ever data.
__attribute__((no_sanitize("thread"))) void copy(std::byte* to, const std::byte* from, std::uint64_t bytes,
                                                 Reuse /*reuse*/) {
  std::uint64_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, from + i, 8);
    __builtin_memcpy(to + i, &word, 8);
  }
  for (; i < bytes; ++i) to[i] = from[i];
  native::work_on(bytes, &native::WorkClock::moved_bytes_per_tick);
}
namespace {

template <typename T>
__attribute__((no_sanitize("thread"))) void copy_typed(ElementRows to, ElementRows from, std::uint64_t elements) {
  for (; elements > 0; --elements, to.first += to.step, from.first += from.step) {
    T value;
    __builtin_memcpy(&value, from.first, sizeof value);
    __builtin_memcpy(to.first, &value, sizeof value);
  }
}

}  // namespace

void copy_rows(ElementRows to, ElementRows from, std::uint64_t elements, std::uint64_t rows, unsigned element_bytes) {
  constexpr std::uint64_t kBytesOfAnElement = 32;  // as long as that many copied
  constexpr std::uint64_t kBytesOfARow = 256;
  const bool dense = to.step == element_bytes && from.step == element_bytes;
  for (std::uint64_t row = 0; row < rows; ++row, to.first += to.row_step, from.first += from.row_step) {
    native::work_on(kBytesOfARow, &native::WorkClock::moved_bytes_per_tick);
    if (dense) {
      hal::copy(to.first, from.first, elements * element_bytes);
      continue;
    }
    switch (element_bytes) {
      case 1: copy_typed<std::uint8_t>(to, from, elements); break;
      case 2: copy_typed<std::uint16_t>(to, from, elements); break;
      case 4: copy_typed<std::uint32_t>(to, from, elements); break;
      default: copy_typed<std::uint64_t>(to, from, elements); break;
    }
    native::work_on(elements * kBytesOfAnElement, &native::WorkClock::moved_bytes_per_tick);
  }
}
// A page by words, the rest by copies of it: a sanitizer looks at a copy once, and at every word by itself.
void fill(std::byte* to, std::uint64_t pattern, std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t first = std::min(bytes, kPage);
  std::uint64_t i = 0;
  for (; i + 8 <= first; i += 8) __builtin_memcpy(to + i, &pattern, 8);
  for (; i < first; ++i) to[i] = static_cast<std::byte>(pattern >> (i % 8 * 8));
  for (std::uint64_t at = first; at < bytes; at += kPage) std::memcpy(to + at, to, std::min(bytes - at, kPage));
  native::work_on(bytes, &native::WorkClock::moved_bytes_per_tick);
}
std::uint32_t checksum(std::uint32_t crc, const std::byte* data, std::uint64_t bytes) {
  native::work_on(bytes, &native::WorkClock::summed_bytes_per_tick);
  return wire::crc32c(crc, data, bytes);
}
void copy_code(PhysicalAddress to, const std::byte* from, std::uint64_t bytes) { copy(pointer(to), from, bytes); }

// ---- hart.hpp -------------------------------------------------------------------------------------------------------

unsigned hart_id() { return native::this_hart; }
unsigned hart_count() { return the_state->options.harts; }
void start_cores() {}
std::uint64_t now() {
  if (const auto& clock = the_state->options.clock) {
    native::work(clock->reading_ticks);
    return the_state->worked_ticks.load(std::memory_order_relaxed) + 1;
  }
  const auto since = std::chrono::steady_clock::now() - the_state->start;
  // Never 0: 0 means "never" in completions.
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(since).count()) * wire::kTicksPerSecond / 1'000'000'000 +
         1;
}
void sleep_until(std::uint64_t deadline) {
  auto& sleeper = the_state->sleepers[native::this_hart];
  if (sleeper.masked) native::die("a hart whose doorbells are masked goes to sleep");
  std::unique_lock lock(sleeper.mutex);
  const std::uint64_t at = now();
  if (the_state->options.clock) {
    if (!sleeper.pending && deadline > at) native::work(std::min(deadline - at, fw::kLongestNativeSleepTicks));
    sleeper.pending = false;
    return;
  }
  const std::uint64_t ticks = deadline > at ? std::min(deadline - at, fw::kLongestNativeSleepTicks) : 0;
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(ticks * (1'000'000'000 / wire::kTicksPerSecond));
  const wire::Waypoint before = waypoint_of(native::this_hart);
  mark(wire::Waypoint::Sleep);
  while (!sleeper.pending) {
    if (sleeper.condition.wait_until(lock, until) != std::cv_status::timeout || sleeper.pending) continue;
    if (native::this_hart == 0) the_state->overslept.fetch_add(1);
    break;
  }
  sleeper.pending = false;
  mark(before);
}
void hold_doorbells() { the_state->sleepers[native::this_hart].masked = true; }
void accept_doorbells() { the_state->sleepers[native::this_hart].masked = false; }
void wake(unsigned hart) { native::wake_hart(hart); }
void signal(unsigned slot, std::uint32_t peer) {
  if (slot < the_state->doorbell.size() && the_state->doorbell[slot]) the_state->options.on_signal(slot, peer);
}
void panic(const char* reason) { native::die(reason); }
void break_by_trap() { native::die("trap"); }
void break_by_stack_overflow() { native::die("stack overflow"); }
void log(const char*) {}

// ---- context.hpp: kernels are played by the test --------------------------------------------------------------------

bool contexts_supported() { return static_cast<bool>(the_state->options.kernel); }
void start(Context& context, std::uint64_t root, std::uint64_t entry, std::uint64_t stack_end, std::uint64_t argument) {
  context.integer = {root, entry, stack_end, argument};
  context.array_orders = {};
  context.played = {};
}
// played[0]: what a played kernel sets.
std::uint64_t progress(const Context& context) { return wire::is_progress(context.played[0]) ? context.played[0] : 0; }
void plant(PhysicalAddress) {}
// played[1]: 0, or 1 more than what was planted. The context plays it until it is started again.
void divert(Context& context, std::uint64_t, Planted planted) {
  context.played[1] = static_cast<std::uint64_t>(planted) + 1;
}
Stop run(Context& context, std::uint64_t began, std::uint64_t slice_ticks) {
  Stop stop = context.played[1] != 0 ? native::play_planted(context, slice_ticks)
                                     : the_state->options.kernel(context, slice_ticks);
  if (the_state->options.clock) native::work(stop.ran_ticks);
  stop.began = began;
  stop.ended = now();
  return stop;  // ran_ticks is the kernel player's own: it may pretend to have used a whole slice
}
void answer(Context& context, std::uint64_t value) { context.integer[4] = value; }
void drop(Context&) {}

// ---- address_space.hpp: a table of mappings per root ----------------------------------------------------------------

std::uint64_t create_root() {
  const std::lock_guard lock(the_state->pages.mutex);
  the_state->pages.roots[the_state->pages.next_root];
  return the_state->pages.next_root++;
}
void destroy_root(std::uint64_t root) {
  const std::lock_guard lock(the_state->pages.mutex);
  if (the_state->pages.roots.erase(root) == 0) native::die("a root is destroyed twice");
}
bool map(std::uint64_t root, std::uint64_t virtual_address, PhysicalAddress physical, std::uint64_t bytes,
         Protection protection) {
  const std::lock_guard lock(the_state->pages.mutex);
  return the_state->pages.roots[root]
      .try_emplace(virtual_address, native::Pages::Mapping{bytes, physical, protection})
      .second;
}
bool prepare_window(std::uint64_t, std::uint64_t, std::uint64_t) { return true; }
bool share_window(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t) { return true; }
std::uint64_t table_pages() {
  const std::lock_guard lock(the_state->pages.mutex);
  return the_state->pages.roots.size();
}
bool fill(std::uint64_t root, std::uint64_t virtual_address, PhysicalAddress physical) {
  return map(root, virtual_address, physical, wire::kGranuleBytes, Protection::ReadWrite);
}
bool refresh(std::uint64_t root, std::uint64_t virtual_address, Protection wanted) {
  const std::lock_guard lock(the_state->pages.mutex);
  const auto* mapping = native::find_mapping(the_state->pages, root, virtual_address);
  return mapping != nullptr && (wanted == Protection::Read || mapping->protection == wanted);
}
void release_window(std::uint64_t, std::uint64_t, std::uint64_t) {}

PhysicalAddress allocate_pages(std::uint64_t bytes) {
  auto& pages = the_state->pages;
  const std::lock_guard lock(pages.mutex);
  PhysicalAddress address = 0;
  if (const auto reused = pages.free.find(bytes); reused != pages.free.end()) {
    address = reused->second;
    pages.free.erase(reused);
  } else {
    if (bytes > the_state->options.page_bytes - pages.used) return 0;
    address = native::kPageBase + pages.used;
    pages.used += bytes;
  }
  pages.in_use += bytes;
  std::memset(pointer(address), 0, bytes);
  native::work_on(bytes, &native::WorkClock::moved_bytes_per_tick);
  return address;
}
void free_pages(PhysicalAddress address, std::uint64_t bytes) {
  auto& pages = the_state->pages;
  const std::lock_guard lock(pages.mutex);
  for (auto [at, end] = pages.free.equal_range(bytes); at != end; ++at) {
    if (at->second == address) native::die("pages are freed twice");
  }
  pages.free.emplace(bytes, address);
  pages.in_use -= bytes;
}
std::uint64_t arena_bytes() { return the_state->options.page_bytes; }
std::uint64_t arena_pages_in_use() {
  const std::lock_guard lock(the_state->pages.mutex);
  constexpr std::uint64_t kBytes = 4096;
  return the_state->pages.in_use / kBytes + the_state->pages.roots.size();
}

// ---- board.hpp ------------------------------------------------------------------------------------------------------

std::string_view boot_arguments() { return the_state->options.boot_arguments; }
unsigned slot_count() { return static_cast<unsigned>(the_state->options.windows.size()); }
bool slot_renewable(unsigned slot) { return slot < slot_count() && slot >= the_state->doorbell.size(); }
bool map_slot(unsigned slot) {
  if (slot >= slot_count() || the_state->options.windows[slot].empty()) return false;
  the_state->mapped[slot] = true;
  if (!slot_renewable(slot)) the_state->doorbell[slot] = true;
  return true;
}
void unmap_slot(unsigned slot) {
  if (slot >= slot_count()) return;
  the_state->mapped[slot] = false;
  if (!slot_renewable(slot)) {
    the_state->doorbell[slot] = false;
  } else if (!the_state->options.windows[slot].empty()) {
    the_state->options.windows[slot] = {};
    the_state->options.on_unplug(slot);
  }
}
bool open_doorbell(unsigned slot) {
  if (slot >= the_state->doorbell.size()) return false;
  the_state->doorbell[slot] = true;
  return true;
}
void close_doorbell(unsigned slot) {
  if (slot < the_state->doorbell.size()) the_state->doorbell[slot] = false;
}
void exit(unsigned) { native::die("exit"); }
void restart_board() { native::die("restart"); }
std::byte* persistent() { return the_state->persistent.data(); }
std::uint64_t persistent_bytes() { return the_state->persistent.size(); }

// ---- record.hpp: this process has debuggers of its own; only what core/ itself reads back is kept -------------------

void mark(wire::Waypoint waypoint) {
  the_state->waypoints[native::this_hart].store(waypoint, std::memory_order_relaxed);
}
wire::Waypoint waypoint_of(unsigned hart) { return the_state->waypoints[hart].load(std::memory_order_relaxed); }
void note(std::uint64_t, wire::RecordedEventKind kind, std::uint32_t a, std::uint64_t b) {
  if (the_state->options.on_note) the_state->options.on_note(kind, a, b);
}
void stop_if_recording() {}
void stuck(unsigned, const char* reason) { native::die(reason); }
void set_after_record(AfterRecord, std::uint64_t) {}
void mark_boot_good() {}
const wire::FatalRecord* previous_record() { return the_state->record ? &*the_state->record : nullptr; }

}  // namespace hal
