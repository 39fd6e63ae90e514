// SPDX-License-Identifier: Apache-2.0
// Kernel: a device program as the kernel build writes it (spyre_add_kernel() of the kernel SDK), image and metadata.
// CompiledKernel: the same with a fixed shape for every operand, which is what the RFC calls a kernel "compiled for
// [1024, 1024]". Both are immutable and may be shared by threads; neither needs a card.
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <spyre/data_type.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace spyre::inline v0 {

struct Inside;  // of the library

// What the kernel's own description says of one operand.
struct KernelOperand {
  std::string name;
  bool reads = false;
  bool writes = false;
  DeviceType dtype = DeviceType::Dl16;
  std::vector<std::string> shape;  // names of dimensions, in order
};

class SPYRE_API Kernel {
 public:
  // `image`: NAME.img, `metadata`: NAME.json of the kernel build. Throw InvalidArgument naming the header or metadata
  // field that is wrong, Error when a file can not be read.
  static std::shared_ptr<const Kernel> load(const std::filesystem::path& image, const std::filesystem::path& metadata);
  static std::shared_ptr<const Kernel> from_memory(std::vector<std::byte> image, std::string_view metadata);

  const std::string& name() const;
  std::vector<KernelOperand> operands() const;  // inputs and outputs, in the order of a launch
  std::vector<std::string> dimensions() const;  // in order of first use
  std::size_t image_bytes() const;

 private:
  friend struct Inside;
  struct Impl;
  explicit Kernel(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Dimension name → extent in elements.
using DimensionExtents = std::map<std::string, std::int64_t, std::less<>>;

// Cheap to copy.
class SPYRE_API CompiledKernel {
 public:
  // Throws InvalidArgument naming the dimension that has no extent, an extent below 1, or no use in the kernel.
  CompiledKernel(std::shared_ptr<const Kernel> kernel, const DimensionExtents& extents);

  const std::shared_ptr<const Kernel>& kernel() const { return kernel_; }
  std::vector<std::int64_t> extents() const;  // in the order of Kernel::dimensions()
  std::vector<std::int64_t> operand_shape(
      std::size_t operand) const;  // elements. Throws InvalidArgument: no such operand

 private:
  friend struct Inside;
  struct Impl;
  std::shared_ptr<const Kernel> kernel_;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace spyre::inline v0
