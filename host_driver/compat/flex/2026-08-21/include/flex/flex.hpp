// SPDX-License-Identifier: Apache-2.0
// The runtime interface that torch-spyre of 2026-08-21 calls, over spyre-vp's cards (docs/torch-spyre.md).
//
// Errors are std::runtime_error with a text that says what failed and what to do next; an exhausted memory says "out of
// memory". Everything is thread-safe unless it says otherwise. After fork() without exec the child's copies refuse
// every call, their destructors touch nothing, and the child may initialise a runtime of its own.
#pragma once

#include <spyrecode-host-functions/sendataconvert/sen_data_convert.h>
#include <util/sendefs/sendefs.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace flex {

namespace detail {  // libflex's
class Allocation;
class Context;
struct Access;
}  // namespace detail

namespace aiupti {
// Only the length of the name is used: what a profiler shows of a launch.
struct AIUpti_ActivityCB {
  char name[128];
};
}  // namespace aiupti

// ---- addresses ------------------------------------------------------------------------------------------------------

// A device memory virtual address (DMVA) is segment << 34 | offset. Segment 7 holds programs, 0 to 6 hold tensors.
inline constexpr uint64_t SEGMENT_SIZE_BITS = 34;
inline constexpr uint64_t SEGMENT_SIZE = uint64_t{1} << SEGMENT_SIZE_BITS;
inline constexpr uint64_t PROG_SEGMENT = 7;
inline constexpr uint64_t PROG_OFFSET_BASE = PROG_SEGMENT << SEGMENT_SIZE_BITS;

uint64_t dmvaToSegmentId(uint64_t dmva);

// `region_id` is the segment.
struct LogicalAddress {
  uint64_t region_id;
  uint64_t offset;

  LogicalAddress(uint64_t region, uint64_t bytes) : region_id(region), offset(bytes) {}
};

struct Chunk {
  LogicalAddress addr;
  size_t size;
  uint32_t domain_id;  // memory that is near to some cores: a card has one domain, 0

  Chunk(LogicalAddress address, size_t bytes, uint32_t domain) : addr(address), size(bytes), domain_id(domain) {}
};

// Device memory. What FlexAllocator::allocate() returns owns it and frees it; work under way keeps it until that has
// ended. Made of a chunk it is a view, which owns nothing. What was moved from is empty.
class CompositeAddress {
 public:
  CompositeAddress();
  explicit CompositeAddress(Chunk chunk);
  CompositeAddress(CompositeAddress&& other) noexcept;
  CompositeAddress& operator=(CompositeAddress&& other) noexcept;
  CompositeAddress(const CompositeAddress&) = delete;
  CompositeAddress& operator=(const CompositeAddress&) = delete;
  ~CompositeAddress();

  const std::vector<Chunk>& chunks() const;
  size_t total_size() const;  // bytes, of all chunks

 private:
  friend struct detail::Access;
  std::vector<Chunk> chunks_;
  std::shared_ptr<detail::Allocation> owned_;
};

// CompositeAddress{total_size=256, num_chunks=1, owns=true, chunks=[Chunk{addr=LogicalAddress{region_id=0x0,
// offset=0x0}, size=256, domain_id=0}]}, on one line.
std::ostream& operator<<(std::ostream& out, const CompositeAddress& address);

// ---- memory ---------------------------------------------------------------------------------------------------------

// Bind: one chunk. Interleave: as many chunks as the card has segments with memory, at most.
enum class PlacementPolicy { Bind, Interleave };
enum class MemoryType { Tensor, Program };

struct AllocationDirective {
  PlacementPolicy policy;
  std::vector<uint32_t> domains;     // {0} or empty: a card has one domain
  std::optional<uint32_t> fallback;  // the domain to take when those are full: 0, or none
  MemoryType type;

  AllocationDirective(PlacementPolicy placement, std::vector<uint32_t> of_domains, std::optional<uint32_t> otherwise,
                      MemoryType memory)
      : policy(placement), domains(std::move(of_domains)), fallback(otherwise), type(memory) {}
};

class FlexAllocator {
 public:
  explicit FlexAllocator(std::shared_ptr<detail::Context> context);  // libflex's
  ~FlexAllocator();

  // Whole sticks: total_size() is the size rounded up to 128. 0 bytes: an empty address. Short of memory it calls the
  // callback once and tries again. Throws std::runtime_error: out of memory; a domain that does not exist.
  CompositeAddress allocate(size_t bytes, const AllocationDirective& directive);

  // Called with the allocator's lock held. It unlocks before anything that allocates, frees or waits, and locks again
  // before it returns. An empty function removes it.
  void registerMemoryPressureCallback(std::function<void(std::unique_lock<std::mutex>&)> callback);

  // The DMVA of the first byte. Throws std::runtime_error: several chunks, or none.
  uint64_t compositeAddressToDmva(const CompositeAddress& address) const;

 private:
  std::shared_ptr<detail::Context> context_;
};

// ---- operations -----------------------------------------------------------------------------------------------------

// Made by the create functions and read by a launch, which copies what it needs: they may be destroyed when it returns.
// `pipeline_barrier`: wait for everything launched before. Operations of one stream always do.
struct DmaParams {
  bool pipeline_barrier = true;
  // Called once, with null, when the transfer has ended in whatever way, or was refused; kept until then. On a thread
  // of libflex, or of a caller of synchronize(); no lock is held, and synchronize() does not wait for one that has
  // begun elsewhere.
  std::function<void(void*)> callback{};

 private:
  friend struct detail::Access;
  void* host_ = nullptr;
  size_t bytes_ = 0;
  bool to_device_ = true;
  const CompositeAddress* device_ = nullptr;
  std::shared_ptr<data_conversion_info> conversion_{};
};

struct ComputeParams {
  bool pipeline_barrier = true;

 private:
  friend struct detail::Access;
  const CompositeAddress* program_ = nullptr;
  std::vector<const CompositeAddress*> tensors_{};
  std::string name_{};
  uint64_t bootstrap_offset_ = 0;
};

struct HostCallbackParams {
 private:
  friend struct detail::Access;
  std::function<void(void*)> callback_{};
  void* argument_ = nullptr;
  bool pipeline_barrier_ = false;
};

// The address outlives the launch, nothing else has to. Without `conversion` the bytes are moved as they are.
DmaParams* createDmaParams(void* host, size_t bytes, bool to_device, const CompositeAddress* device,
                           std::shared_ptr<data_conversion_info> conversion = nullptr);
void destroyDmaParams(DmaParams* params);
// `program`: the memory that the program was sent to; a binary (docs/spyrecode.md) begins at `bootstrap_offset`.
// `tensors`: its operands, in order; none: they are named by the correction tensor that was sent to the program's
// memory on this stream last. `name`: for messages.
ComputeParams* createComputeParams(const CompositeAddress* program, std::vector<const CompositeAddress*> tensors,
                                   std::string name, uint64_t bootstrap_offset);
void destroyComputeParams(ComputeParams* params);
HostCallbackParams* createHostCallbackParams(std::function<void(void*)> callback, void* argument,
                                             bool pipeline_barrier);
void destroyHostCallbackParams(HostCallbackParams* params);

// ---- streams --------------------------------------------------------------------------------------------------------

// Operations of one stream run in the order of their launches; nothing orders two streams. The object stays valid for
// the rest of the process; when its context has ended every call throws.
//
// A stream that failed refuses launches, with its first error, until its context is replaced by another one.
class RuntimeStream {
 public:
  // To the card. Reads all of the host's memory before it returns, but for plain transfers of more than 1 MiB into
  // tensors: that memory is the caller's to keep until the callback, or synchronize(). Memory between the elements of a
  // conversion keeps its content.
  void launchOperationH2D(DmaParams* params);
  // From the card. Returns at once; the host's memory belongs to the transfer until the callback, or synchronize().
  void launchOperationD2H(DmaParams* params);
  void launchOperationCompute(ComputeParams* params);
  // Runs the callback before it returns, on the calling thread; what it throws reaches the caller.
  void launchOperationHostCallback(HostCallbackParams* params);
  // Every element becomes the value, as the format has it; padding too. `use_dmai` says how and changes nothing.
  void fillAsync(const CompositeAddress* address, double value, DataFormats format, bool use_dmai);

  // Until everything launched before has ended. Throws the stream's first error, again and again; but once that of a
  // launch whose own values ended it (an index outside of its table), which this or another call on the stream finds:
  // what was launched behind it has not been executed then, and the stream goes on.
  void synchronize();
  // Whether it has ended. Does not wait.
  bool query();
  // The stream failed, or the card did. True until the end of the context. An error that is told once is none.
  bool needsShutdown();

  RuntimeStream(const RuntimeStream&) = delete;
  RuntimeStream& operator=(const RuntimeStream&) = delete;

 private:
  friend struct detail::Access;
  RuntimeStream(std::shared_ptr<detail::Context> context, unsigned id);
  ~RuntimeStream();
  std::shared_ptr<detail::Context> context_;
  unsigned id_;
};

enum class RuntimeStreamPriority { LOW, NORMAL, HIGH };

// ---- the runtime ----------------------------------------------------------------------------------------------------

// A device of this process, from initializeRuntime() until the last pointer to it goes, or until the program exits:
// then work under way is ended.
class RuntimeContext {
 public:
  explicit RuntimeContext(std::shared_ptr<detail::Context> context);  // libflex's
  ~RuntimeContext();
  RuntimeContext(const RuntimeContext&) = delete;
  RuntimeContext& operator=(const RuntimeContext&) = delete;

  RuntimeStream* getDefaultStream();
  // Opened when it is asked for. 40 of LOW and NORMAL and 32 of HIGH are streams of their own; further ones share them.
  RuntimeStream* createStream(RuntimeStreamPriority priority);
  std::shared_ptr<FlexAllocator> getAllocator();
  // Whether any stream that was handed out needsShutdown().
  bool hasStreamError();

 private:
  std::shared_ptr<detail::Context> context_;
  std::shared_ptr<FlexAllocator> allocator_;
};

struct Status {
  std::string text;  // "VF2 of card0"
};
std::ostream& operator<<(std::ostream& out, const Status& status);

// Opens the device with this index among those that getNumDevices() counts. A process has one at a time: again for the
// same device gives the same runtime, as long as anybody holds it. Throws std::runtime_error.
Status initializeRuntime(std::shared_ptr<RuntimeContext>* runtime, int device);

// By FLEX_DEVICE, SPYRE_DEVICES and AIU_WORLD_SIZE (docs/cards.md). FLEX_DEVICE not set and no card running: 1, a card
// of this process's own. PF or VF and no card: 0. Throws std::runtime_error for a malformed variable.
int getNumDevices();

// Throws std::runtime_error when there is none.
std::shared_ptr<RuntimeContext> getFlexRuntimeContext();

}  // namespace flex

#pragma GCC visibility pop
