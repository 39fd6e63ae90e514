// SPDX-License-Identifier: Apache-2.0
// What a program may choose: the card, the context on it, a launch. Plain data; every default is a good choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <spyre/recovery.hpp>
#include <string>
#include <vector>

namespace spyre::inline v0 {

// A card of the program's own, emulated in a process beside it (an embedded card).
struct CardOptions {
  std::string name = "embedded";  // in records of errors
  // An ELF file. Empty: SPYRE_FIRMWARE of the environment, else the one that belongs to this library (lib/spyre beside
  // it).
  std::filesystem::path firmware{};
  unsigned cores = 0;  // 0: as many as this machine has CPUs, at most 2
  // At least 2050 MiB, 2 GiB of which are the firmware's own. Sparse: only what is touched takes memory of this
  // machine.
  std::uint64_t memory_bytes = std::uint64_t{98} << 30;
  unsigned virtual_functions = 4;  // 0 … 16
  // Region memory is divided among the functions: each is guaranteed an equal part. Set: this one (0: the physical
  // function, n: virtual function n) is guaranteed everything, the others nothing.
  std::optional<unsigned> sole_function{};
  std::uint64_t window_bytes = std::uint64_t{256} << 20;  // of each function: rings and pinned host memory
  // How many bytes of its memory the card may touch before it refuses more with a typed fault. 0: what fits this
  // machine.
  std::uint64_t populated_budget_bytes = 0;
  std::string boot_arguments{};                  // more words for the card's boot command line, separated by blanks
  std::string emulator = "qemu-system-riscv64";  // a name without '/' is looked up in PATH
  std::filesystem::path console_file{};          // the firmware's console is appended to it; empty: no file
  // Where a debugger may attach: "tcp:127.0.0.1:1234" or "unix:<path>,server=on,wait=off". With "wait=on" the first
  // instruction waits for the debugger's "continue". No bound of the library counts while a debugger holds the card.
  // Empty: where SPYRE_GDB of the environment says, else nowhere.
  std::string gdb_endpoint{};
};

// How a context gets device memory from the card: in regions, of which it cuts tensors (docs/memory.md). Sizes of
// regions are multiples of 2 MiB up to 16 GiB. What is impossible is an InvalidArgument of Context::open().
struct MemoryOptions {
  // At most as many bytes in regions, programs included; or that part of all memory that the context could get (above
  // 0, at most 1). Not both. SpyreAllocator::set_memory_limit() changes it.
  std::optional<std::uint64_t> limit_bytes{};
  std::optional<double> limit_fraction{};
  unsigned max_regions = 7;  // of tensors, at a time: 1 … 7
  // Sizes of tensor regions to ask the card for, in this order. Empty: 12, 8, 4 GiB, and up to 16 GiB where the regions
  // that may still be held could not hold the rest of the context's share otherwise.
  std::vector<std::uint64_t> region_bytes{};
  // Tensor regions that are acquired when the context is opened, and again after a reset of the function, as far as the
  // card then gives them: their sizes, from region 0 on. open() throws Error when the card refuses one.
  std::vector<std::uint64_t> acquire_at_open{};
};

struct ContextOptions {
  // An embedded card like this, whatever the environment says. Empty: the environment decides; an embedded card then
  // has no function but this context's, which has all its memory. Give options for a card that several contexts share.
  std::optional<CardOptions> card{};
  // Of an embedded card. 0: the physical function; n: virtual function n, whatever the environment says.
  unsigned function = 0;
  // Of the running cards (FLEX_DEVICE not set: counted as PF). Not together with the two above.
  std::optional<std::size_t> device_index{};
  MemoryOptions memory{};
  // What the context does by itself when something fails.
  RecoveryOptions recovery{};
  // Transfers between host and card carry a CRC32C that the receiving side compares. What does not match ends FAULT
  // "checksum". Costs both sides a pass over the bytes.
  bool checksums = false;
  // A launch whose correction tensor is on the card already, byte by byte, from an earlier launch of its stream, does
  // not send it again. A stream keeps up to 256 of them, in 128 KiB of the Program region. False: each launch sends its
  // own, as the RFC says.
  bool elide_corrections = true;
};

enum class StreamPriority : std::uint32_t { Low = 0, High = 1 };

struct LaunchOptions {
  // False: only tensors of exactly the compiled shape are taken; larger and smaller ones, and views with other strides,
  // are refused (TiledLaunchNotAllowed). Device programs have no tile: their arguments are bytes.
  bool allow_tiled_launch = true;
  std::uint64_t core_mask = 0;      // bit n: core n; 0: chosen by the amount of work
  std::uint64_t budget_slices = 0;  // watchdog slices of 1 ms of the card's time; 0: the card's default
  // Begins when everything launched on the stream before has ended: nothing of the launch, neither what the host
  // computes for it in the order of the stream nor a block, overlaps with what stands before it (docs/streams.md).
  bool pipeline_barrier = false;
  // Released when the launch has ended, at the latest before Synchronize() returns: memory that only the launch still
  // needs. Its destructor runs on any thread of the program or of the driver, with no lock of the driver held.
  std::shared_ptr<const void> keep_alive{};
};

// How the tensors' addresses reach a kernel of a plan on disk (docs/spyrecode.md). On: the directory describes the
// correction tensor (ComputeOnHost, DataTransfer). Off: it says nothing, and the library gives the addresses with the
// computation.
enum class SymbolicArguments : std::uint8_t { Off, On };

}  // namespace spyre::inline v0
