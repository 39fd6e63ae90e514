// SPDX-License-Identifier: Apache-2.0
// Page tables for kernels, as operations on a root that core/ owns. Filling an invalid entry needs no flush on the
// other harts (a stale "invalid" ends in a fault that is retried); removing or restricting an entry is only done on a
// root that no hart runs (protocol §7: a new root is made, the old one is freed when its last launch ended).
#pragma once

#include <cstdint>

#include "firmware/hal/memory.hpp"

namespace hal {

enum class Protection : std::uint8_t { Read, ReadWrite, ReadExecute };

// A root with nothing mapped; 0 when out of table pages. Free with destroy_root (tables shared by share_window stay).
std::uint64_t create_root();
void destroy_root(std::uint64_t root);

// Maps [virtual_address, +bytes) to physical memory in 4 KiB or, where both are 2 MiB-aligned, 2 MiB pages. Both
// addresses page-aligned. False when out of table pages (nothing is mapped then) or when an entry is in use.
bool map(std::uint64_t root, std::uint64_t virtual_address, PhysicalAddress physical, std::uint64_t bytes,
         Protection protection);

// Makes intermediate tables of [virtual_address, +bytes) exist in `root` so that fill() can set 2 MiB entries later,
// and lets `other` roots point to the same tables (one set of region tables per function, one root per core).
// The tables belong to the window, not to a root: destroy_root leaves them, release_window frees them. Both are false
// when an entry is in use otherwise (prepare_window also when out of table pages); nothing has changed then.
bool prepare_window(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t bytes);
bool share_window(std::uint64_t from_root, std::uint64_t to_root, std::uint64_t virtual_address, std::uint64_t bytes);

// First touch: sets the invalid 2 MiB entry that covers `virtual_address` (ReadWrite). Returns false when it was
// valid already: then the hart had a stale translation, which is flushed here. Several harts may fill at once. A panic
// when the window was not prepared.
bool fill(std::uint64_t root, std::uint64_t virtual_address, PhysicalAddress physical);

// Whether the tables as they are now allow an access that needs these rights. Then the hart that faulted on it knew an
// older translation: the mapping was added to a root that it runs. The translation is flushed, and the access may be
// tried again. On the hart that faulted.
bool refresh(std::uint64_t root, std::uint64_t virtual_address, Protection wanted);

// Frees the tables of a prepared window. Destroy the roots that share them first, and no hart may run this one.
void release_window(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t bytes);

// Pages that hold page tables now (a test that creates and destroys finds the same number again).
std::uint64_t table_pages();

// Physical memory for execution areas, stacks, pools, argument pages: page-aligned, zeroed, from the firmware's own
// range; 0 when exhausted. From 2 MiB up aligned to 2 MiB. free_pages takes exactly what was allocated.
PhysicalAddress allocate_pages(std::uint64_t bytes);
void free_pages(PhysicalAddress address, std::uint64_t bytes);

// Size of that range, used or not. Page tables come out of it as well. Constant.
std::uint64_t arena_bytes();
// Pages of 4 KiB of it that are allocated now, page tables included.
std::uint64_t arena_pages_in_use();

}  // namespace hal
