// SPDX-License-Identifier: Apache-2.0
// svp::Kernel: a device program as the kernel build writes it, image and metadata (protocol §7), and
// svp::CompiledKernel: the same with a fixed shape for every operand, which is what the RFC calls a kernel "compiled
// for [1024, 1024]". Both are immutable once made and may be shared by threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/runtime/shape.hpp"
#include "shared/control_block.hpp"
#include "shared/kernel_abi.hpp"

namespace svp {

class DeviceProgram;

// Of one launch. The segment table of a control block has rows for the first wire::kSegments of them; for those behind
// it the driver keeps a table of its own (operand_table.hpp).
inline constexpr std::size_t kMaxOperands = 124;
inline constexpr std::size_t kMaxDimensions = 124;

struct KernelOperand {
  std::string name;
  wire::SegmentAccess access = wire::kSegmentRead;
  DeviceType dtype = DeviceType::Dl16;
  std::vector<std::uint32_t> shape;  // indices into KernelMetadata::dimensions; none: a scalar, one stick

  // Memory of the driver's that only the launch itself sees: what it writes there is lost on nobody.
  bool driver_own = false;

  bool writes() const { return (access & wire::kSegmentWrite) != 0; }
};

// What the correction tensor carries, in this order.
struct KernelSymbol {
  wire::SymbolKind kind = wire::SymbolKind::Address;
  std::uint32_t operand = 0;
  std::uint32_t axis = 0;       // Stride: which axis of the operand; the stick axis means its outer copy
  std::uint32_t dimension = 0;  // Dimension: index into KernelMetadata::dimensions
};

struct KernelFunction {
  std::string name;
  std::uint64_t offset = 0;  // bytes from the start of text
  std::uint64_t bytes = 0;
};

struct KernelMetadata {
  std::string name;
  std::vector<std::string> dimensions;  // names, in order of first use
  std::vector<KernelOperand> operands;
  std::vector<KernelSymbol> symbols;
  std::vector<KernelFunction> functions;  // by offset
  std::uint64_t image_bytes = 0;          // of the image it was written with
  std::uint32_t image_crc32c = 0;
};

inline constexpr int kKernelMetadataFormat = 1;

// The reader of the metadata file (kernel_metadata.cpp). Throws InvalidArgument naming the JSON field that is missing,
// unknown or wrong.
KernelMetadata parse_kernel_metadata(std::string_view json);

class Kernel {
 public:
  // Throw InvalidArgument naming the header or metadata field that is wrong, Error when a file can not be read.
  static std::shared_ptr<const Kernel> load(const std::filesystem::path& image, const std::filesystem::path& metadata);
  static std::shared_ptr<const Kernel> from_memory(std::vector<std::byte> image, std::string_view metadata);

  // The kernel of a device program: the image of `engine` (firmware/kernels/engine), with the program, its arguments
  // and its workspace as operands; each is a run of sticks. Without an engine it has no image, and can not be loaded.
  // Throws InvalidArgument ("engine") for a kernel that does not take the symbols of any program.
  static std::shared_ptr<const Kernel> of_program(std::shared_ptr<const DeviceProgram> program,
                                                  std::shared_ptr<const Kernel> engine);

  const std::string& name() const { return metadata_.name; }
  std::uint64_t serial() const { return serial_; }  // no other kernel of this process has or had it
  const KernelMetadata& metadata() const { return metadata_; }
  std::string_view metadata_text() const { return metadata_text_; }  // what the metadata was read from
  std::span<const std::byte> image() const { return engine_ != nullptr ? engine_->image() : image_; }
  const std::shared_ptr<const DeviceProgram>& program() const { return program_; }  // null: it is a kernel of its own
  const std::shared_ptr<const Kernel>& engine() const { return engine_; }           // likewise
  std::uint64_t max_correction_bytes() const { return header_.max_correction_bytes; }

  // "matmul_tile+0x4c" for a pc of a fault record; "outside of the image's text" for ~0; "+0x4c" without a function.
  std::string symbolise(std::uint64_t pc) const;

 private:
  Kernel();
  void check_image() const;

  const std::uint64_t serial_;
  std::vector<std::byte> image_;
  wire::ImageHeader header_{};
  std::string metadata_text_;
  KernelMetadata metadata_;
  std::shared_ptr<const DeviceProgram> program_;
  std::shared_ptr<const Kernel> engine_;
};

// Dimension name → extent in elements.
using DimensionExtents = std::map<std::string, std::int64_t, std::less<>>;

class CompiledKernel {
 public:
  // Throws InvalidArgument naming the dimension that has no extent, an extent below 1, or no use in the kernel.
  CompiledKernel(std::shared_ptr<const Kernel> kernel, const DimensionExtents& extents);

  const std::shared_ptr<const Kernel>& kernel() const { return kernel_; }
  std::span<const std::int64_t> extents() const { return extents_; }  // in order of KernelMetadata::dimensions
  std::span<const Shape> operand_shapes() const { return shapes_; }   // in order of KernelMetadata::operands

 private:
  std::shared_ptr<const Kernel> kernel_;
  std::vector<std::int64_t> extents_;
  std::vector<Shape> shapes_;
};

}  // namespace svp
