// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qemu {

/// The allocator that emulators are started with, or nothing for the C library's.
///
/// QEMU keeps the vector registers of a hart in a block of memory that it asks to be aligned to 16 bytes, and moves
/// them 32 bytes at a time. Where the C library puts the block depends on the lengths of arguments and variables. In
/// half of the places every second move crosses a cache line, and vector code takes up to twice the time.
/// jemalloc aligns such blocks to 64 bytes, and the registers lie at a multiple of 64 in them
/// (docs/notes/2026-11-25-emulator-alignment.md).
///
/// SPYRE_EMULATOR_ALLOCATOR names a library (a file), or is "none". Without it: libjemalloc.so.2, when the system has
/// it.
[[nodiscard]] std::optional<std::filesystem::path> emulator_allocator();

/// The variables that an emulator gets: this process's, and LD_PRELOAD with the allocator, unless LD_PRELOAD is set.
[[nodiscard]] std::vector<std::string> emulator_environment();

/// The same, from `variables` and with `allocator`.
[[nodiscard]] std::vector<std::string> with_allocator(std::span<const std::string> variables,
                                                      const std::optional<std::filesystem::path>& allocator);

}  // namespace qemu
