// SPDX-License-Identifier: Apache-2.0
// The blocks of a tiled launch, written tile by tile as the card takes them. Owned by the launch; what it needs it has
// copied, so that nothing of the caller's is read after Launch() has returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "host_driver/runtime/bound_operands.hpp"
#include "host_driver/runtime/correction.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/unit.hpp"

namespace svp {

// What all tiles of a launch have in common.
struct ComputeTerms {
  DevicePlace correction_slot;
  wire::AddressMode mode = wire::AddressMode::Vf;
  std::uint64_t core_mask = 1;
  std::uint64_t budget_slices = 0;  // 0: the card's default
};

class TileBlocks {
 public:
  // The plan is [HostOperation, CorrectionDMA,] DeviceCompute, and its function runs in the stream, or is one of the
  // driver's: build_correction, or that of a plan on disk. Of the driver's a tile can be written on any thread, with
  // any lock held; the others are written with none.
  static bool can_write(const Job& job);

  TileBlocks(const Job& job, const BoundOperands& operands, const ComputeTerms& terms);

  std::uint32_t next() const { return next_; }  // the first tile that is not written
  bool ended() const { return next_ == operands_.tiling().tiles; }
  bool corrects() const { return corrects_; }
  bool in_stream() const { return in_stream_; }  // HostTime::InStream
  std::uint64_t blocks_per_tile() const { return corrects_ ? 2 : 1; }
  std::uint64_t blocks_left() const { return (operands_.tiling().tiles - next_) * blocks_per_tile(); }
  // Steps of the plan, for records and traces.
  std::uint32_t first_step() const { return corrects_ ? 1 : 0; }

  // Of tile next(). `correction` is null when corrects() is false. Throws what the function throws, and InvalidArgument
  // when it fills none or too much; of the driver's functions, when the first tile does not, none does.
  void write(Unit* correction, Unit& compute) const;
  // The tile is written, or will not be: next() is the following one.
  void advance() { ++next_; }
  void write_next(Unit* correction, Unit& compute) {
    write(correction, compute);
    advance();
  }
  // What its tiles read and write together, without partial results; and the image.
  template <typename Visit>
  void for_each_operand(Visit visit) const {
    for (std::size_t i = 0; i < operands_.count(); ++i) {
      if (!kernel_->metadata().operands[i].driver_own) visit(operands_.whole(i));
    }
    const VirtualAddress& image = operands_.image().address;
    visit(wire::Segment{.region_id = image.region_id,
                        .offset = image.offset,
                        .bytes = kernel_->image().size(),
                        .generation = 0,
                        .access = wire::kSegmentRead,
                        .reserved = {}});
  }
  // The others will not be written.
  void abandon() { next_ = operands_.tiling().tiles; }

 private:
  std::shared_ptr<const Kernel> kernel_;
  BoundOperands operands_;
  ProgramCorrectionMetadata metadata_;
  ComputeTerms terms_;
  HostFunction host_;  // empty: corrects() is false
  bool corrects_;
  bool in_stream_;
  std::uint32_t next_ = 0;
};

// ---- one block, also of launches that are written at once

// Of step `step` of the tile's walk.
void start_block(Unit& unit, wire::Opcode opcode, std::uint32_t tile, std::uint32_t step);
void write_correction(const ComputeTerms& terms, std::uint64_t bytes, Unit& unit);
void write_compute(const ComputeTerms& terms, const BoundOperands& operands, const Tile& tile,
                   std::uint64_t correction_bytes, Unit& unit);
// Returns the bytes of the correction tensor, which `correction` has got. Throws what `host` throws, and
// InvalidArgument when it fills none or too much.
std::uint64_t run_host_operation(const HostFunction& host, const ProgramCorrectionMetadata& metadata,
                                 const ComputeTerms& terms, const BoundOperands& operands, const Tile& tile,
                                 const CorrectionBuffer& correction);

}  // namespace svp
