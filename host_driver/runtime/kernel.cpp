// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/kernel.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "host_driver/base/crc32c.hpp"

namespace svp {
namespace {

[[noreturn]] void refuse_image(const char* field, const std::string& what) {
  throw InvalidArgument(std::string("image.") + field, "kernel image: " + what,
                        "build the kernel again with this version's kernel build");
}

std::vector<char> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error({.layer = Layer::Driver,
                 .source = path.string(),
                 .next_step = "build the kernels or give another path",
                 .message = "can not open the kernel file " + path.string()});
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string hex(std::uint64_t value) {
  char digits[2 + 16 + 1];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(value));
  return digits;
}

}  // namespace

namespace {
std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}
}  // namespace

Kernel::Kernel() : serial_(next_serial()) {}

std::shared_ptr<const Kernel> Kernel::load(const std::filesystem::path& image, const std::filesystem::path& metadata) {
  const std::vector<char> image_file = read_file(image);
  const std::vector<char> metadata_file = read_file(metadata);
  const auto* bytes = reinterpret_cast<const std::byte*>(image_file.data());
  return from_memory({bytes, bytes + image_file.size()}, {metadata_file.data(), metadata_file.size()});
}

std::shared_ptr<const Kernel> Kernel::from_memory(std::vector<std::byte> image, std::string_view metadata) {
  std::shared_ptr<Kernel> kernel(new Kernel);
  kernel->metadata_ = parse_kernel_metadata(metadata);
  kernel->metadata_text_ = metadata;
  kernel->image_ = std::move(image);
  if (kernel->image_.size() < sizeof(wire::ImageHeader)) refuse_image("size", "shorter than its header");
  std::memcpy(&kernel->header_, kernel->image_.data(), sizeof(wire::ImageHeader));
  kernel->check_image();
  return kernel;
}

void Kernel::check_image() const {
  const wire::ImageHeader& h = header_;
  if (h.magic != wire::kImageMagic) refuse_image("magic", "bad magic");
  if (h.abi_version != wire::kImageAbiVersion) {
    refuse_image("abi_version", "ABI version " + std::to_string(h.abi_version) + ", this driver and its card run " +
                                    std::to_string(wire::kImageAbiVersion));
  }
  if (h.image_bytes != image_.size()) {
    refuse_image("image_bytes", "header says " + std::to_string(h.image_bytes) + " bytes, the file has " +
                                    std::to_string(image_.size()));
  }
  if (h.text_bytes == 0 || h.text_bytes > wire::kMaxTextBytes ||
      !wire::range_inside(h.text_offset, h.text_bytes, h.image_bytes)) {
    refuse_image("text", "text does not lie inside the image");
  }
  if (h.pool_bytes > wire::kMaxPoolBytes || !wire::range_inside(h.pool_offset, h.pool_bytes, h.image_bytes)) {
    refuse_image("pool", "literal pool does not lie inside the image");
  }
  if (h.correction_entry >= h.text_bytes || h.compute_entry >= h.text_bytes) {
    refuse_image("entry", "an entry lies outside of the text");
  }
  std::vector<std::byte> zeroed = image_;
  wire::ImageHeader blank = h;
  blank.crc32c = 0;
  std::memcpy(zeroed.data(), &blank, sizeof blank);
  if (crc32c(0, zeroed) != h.crc32c) refuse_image("crc32c", "checksum mismatch");
  if (metadata_.image_bytes != h.image_bytes || metadata_.image_crc32c != h.crc32c) {
    refuse_image("crc32c", "image and metadata do not belong together");
  }
  const std::uint64_t needed =
      metadata_.symbols.empty() ? 0 : wire::correction_bytes(static_cast<std::uint32_t>(metadata_.symbols.size()));
  if (needed > h.max_correction_bytes || h.max_correction_bytes > wire::kMaxCorrectionBytes) {
    refuse_image("max_correction_bytes", "correction tensor of " + std::to_string(needed) + " bytes, the image takes " +
                                             std::to_string(h.max_correction_bytes));
  }
}

std::string Kernel::symbolise(std::uint64_t pc) const {
  if (engine_ != nullptr) return engine_->symbolise(pc);
  if (pc >= header_.text_bytes) return "outside of the image's text";
  const auto& functions = metadata_.functions;
  auto next = std::upper_bound(functions.begin(), functions.end(), pc,
                               [](std::uint64_t at, const KernelFunction& f) { return at < f.offset; });
  if (next == functions.begin()) return "+" + hex(pc);
  --next;
  return next->name + "+" + hex(pc - next->offset);
}

CompiledKernel::CompiledKernel(std::shared_ptr<const Kernel> kernel, const DimensionExtents& extents)
    : kernel_(std::move(kernel)) {
  const KernelMetadata& metadata = kernel_->metadata();
  for (const std::string& name : metadata.dimensions) {
    const auto found = extents.find(name);
    if (found == extents.end() || found->second < 1) {
      throw InvalidArgument("extents." + name,
                            "kernel " + kernel_->name() + " needs a positive extent for dimension " + name,
                            "give every dimension of the kernel an extent");
    }
    extents_.push_back(found->second);
  }
  for (const auto& entry : extents) {
    if (std::find(metadata.dimensions.begin(), metadata.dimensions.end(), entry.first) == metadata.dimensions.end()) {
      throw InvalidArgument("extents." + entry.first, "kernel " + kernel_->name() + " has no dimension " + entry.first,
                            "name only the kernel's dimensions");
    }
  }
  for (const KernelOperand& operand : metadata.operands) {
    std::vector<std::int64_t> shape;
    shape.reserve(operand.shape.size());
    for (const std::uint32_t dimension : operand.shape) shape.push_back(extents_[dimension]);
    shapes_.emplace_back(std::span<const std::int64_t>(shape));
  }
}

}  // namespace svp
