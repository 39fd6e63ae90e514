// SPDX-License-Identifier: Apache-2.0
// The address spaces of functions: made step by step as launches need them, retired when a region goes away, destroyed
// when nothing runs on them, and paid for by the function's share of firmware memory. Hart 0 only.
//
// A launch runs on the space that was its function's current one at its start, to its end. What adds to a space
// (another region, core, image) is done in place; what takes something away retires it: launches under way go on there,
// later ones get a new space, and the old one is freed, with the released regions that it maps, when its last launch
// has ended. So no mapping is ever taken from under a running kernel.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "firmware/core/function_space.hpp"
#include "firmware/core/image_check.hpp"
#include "firmware/core/memory_shares.hpp"
#include "firmware/core/region_table.hpp"
#include "firmware/core/stream.hpp"

namespace fw {

class RegionPool;

class AddressSpaces {
 public:
  // Whether a space has room for a launch. Busy: launches under way on it have all there is. NoPages: the function's
  // share, or the arena, is used up. Unfinished: a step of the image's checksum is done, and more are needed.
  enum class Fit : std::uint8_t { Yes, Refused, Busy, NoPages, Unfinished };

  // `functions` is how many of them launch kernels: they share firmware memory in equal parts (share_bytes()).
  void init(unsigned cores, unsigned functions, RegionPool& pool);

  // ---- for a launch that starts

  // The function's current space; nullptr: no pages.
  FunctionSpace* current(Owner function);
  // What a part of a launch runs in.
  struct Place {
    FunctionSpace* space;
    CoreSpace* core;
    std::uint8_t area;
    std::uint8_t context;  // of the core

    const ExecutionArea& image() const { return space->areas[area]; }
    ContextSlot& slot() const { return core->contexts[context]; }
  };
  // Finds one on core 0 that exists and that nobody uses, for an image that an earlier launch has named in the same
  // way. False: there is none, and only current(), find_area() and take_context() know why.
  bool find_place(Owner function, const RegionTable& regions, const wire::ComputePayload& compute, Place& place) const;
  // Whether regions have come that the current space does not map yet.
  bool lacks_regions(Owner function, const RegionTable& regions) const;
  // `index` is the area that holds the image then, loaded when needed. Refused: see `why`.
  Fit find_area(FunctionSpace& space, hal::PhysicalAddress source, std::uint64_t bytes, std::uint8_t& index,
                ImageCheck& check, Verdict& why);
  // Tensor regions of the table get windows in the space. False: no pages.
  bool ensure_regions(FunctionSpace& space, const RegionTable& regions);
  // A context on the core from which the image in `area` can be run; `planted`: with prepare_planted()'s instructions.
  Fit take_context(FunctionSpace& space, unsigned core, unsigned area, bool planted, std::uint8_t& context);
  // The context's own copy of the image's pool is as new.
  void restore_pool(const Place& place);

  // A launch is under way on the space; leave() takes it back, and frees a retired space with its last one.
  void enter(FunctionSpace& space) { ++space.launches; }
  void leave(FunctionSpace& space);
  static void give_context(FunctionSpace& space, unsigned core, unsigned context) {
    space.cores[core]->contexts[context].busy = false;
  }

  // Frees the current space when nothing runs on it: what earlier launches left in its caches makes room. False: there
  // is none, or something runs on it.
  bool drop_idle(Owner function);

  // ---- for command buffers

  // Whole pages of firmware memory out of the function's share, zeroed; 0: it has no more, or nobody has.
  hal::PhysicalAddress hold_pages(Owner function, std::uint64_t bytes);
  void give_pages(Owner function, hal::PhysicalAddress pages, std::uint64_t bytes);

  // ---- for everybody else

  // A region that is about to leave the function's table: later launches do not see it, those under way go on with it,
  // and its memory goes back to the pool when the last of them has ended, at once when there is none. False, and
  // nothing has changed: every address space of the function is in use; try again when a launch has ended.
  [[nodiscard]] bool release_region(Owner function, const Region& region);
  // Drops cached images, contexts and page tables. No launch of the function may be active.
  void forget(Owner function);
  // [address, +bytes) of card memory is about to be written: images loaded from there no longer match.
  void note_write(Owner function, hal::PhysicalAddress address, std::uint64_t bytes);

  // FaultPoint::Kernel: launches that begin from now on have mapped what a kernel that is broken runs into. False: no
  // memory for it.
  bool prepare_planted();

  // Firmware memory that one function may hold: an equal part of the arena, but at least smallest_share(), which is one
  // context on each of `cores` cores and one image, both as large as they may be. Only where the smallest shares do not
  // fit the arena together (15 functions and more on 64 cores) can other functions use up what one may have.
  std::uint64_t share_bytes() const { return share_; }
  static std::uint64_t smallest_share(unsigned cores);
  std::uint64_t held_pages_bytes(Owner function) const { return tenants_[function].bytes; }
  // Pages of the arena that functions hold, as the arena itself counts them. The page of prepare_planted() is the
  // card's.
  std::uint64_t arena_pages() const;
  // Bytes that were summed, copied and cleared for launches, since boot: what they took of hart 0 before they ran.
  std::uint64_t prepared_bytes() const { return prepared_bytes_; }
  void note_prepared(std::uint64_t bytes) { prepared_bytes_ += bytes; }
  // What an image costs to be loaded besides its bytes: page tables, and room for it, which may be a new space.
  static constexpr std::uint64_t kBytesOfALoad = 256 * 1024;

 private:
  // What the cores hold of one function.
  struct Tenant {
    FunctionSpace* current = nullptr;
    std::array<FunctionSpace*, kSpacesPerFunction - 1> retired{};
    std::uint64_t bytes = 0;  // firmware memory of all spaces
  };

  bool fits(const Tenant& tenant, std::uint64_t bytes) const { return tenant.bytes + bytes <= share_; }
  Tenant& tenant_of(const FunctionSpace& space) { return tenants_[space.function]; }
  void charge(FunctionSpace& space, std::uint64_t bytes);
  hal::PhysicalAddress take_pages(FunctionSpace& space, std::uint64_t bytes);
  template <typename Make>
  bool make_tables(FunctionSpace& space, Make make);

  Fit judge_image(std::span<const std::byte> image, hal::PhysicalAddress source, const wire::ImageHeader& header,
                  ImageCheck& check, Verdict& why);
  CoreSpace* ensure_core(FunctionSpace& space, unsigned core);
  bool ensure_context(FunctionSpace& space, CoreSpace& core, unsigned index, unsigned area_index);
  bool map_context_data(FunctionSpace& space, CoreSpace& core, unsigned index);
  [[gnu::cold, gnu::noinline]] bool plant_in(FunctionSpace& space, CoreSpace& core);
  static bool retire(Tenant& tenant);
  void destroy(FunctionSpace*& entry);

  std::uint64_t share_ = 0;
  std::uint64_t prepared_bytes_ = 0;
  hal::PhysicalAddress planted_ = 0;  // the page of hal::plant(); 0: never asked for
  RegionPool* pool_ = nullptr;
  std::array<Tenant, kLaunchFunctions> tenants_;
};

}  // namespace fw
