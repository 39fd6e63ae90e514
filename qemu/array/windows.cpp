// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/windows.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

namespace svp::array {
namespace {

struct Mapping {
  std::uint64_t begin;
  std::uint64_t end;
};

// Bytes of this process that may be gone: the emulator's other threads map and unmap. The kernel says so, where a load
// would end the process.
class CarefulReader {
 public:
  CarefulReader() : file_(memfd_create("spyre-array", MFD_CLOEXEC)) {}
  ~CarefulReader() {
    if (file_ >= 0) close(file_);
  }
  CarefulReader(const CarefulReader&) = delete;
  CarefulReader& operator=(const CarefulReader&) = delete;

  std::optional<std::uint64_t> word(std::uint64_t address) const {
    std::uint64_t value = 0;
    constexpr auto kBytes = static_cast<ssize_t>(sizeof value);
    if (pwrite(file_, reinterpret_cast<const void*>(address), sizeof value, 0) != kBytes) return std::nullopt;
    if (pread(file_, &value, sizeof value, 0) != kBytes) return std::nullopt;
    return value;
  }

 private:
  int file_;
};

// Shared mappings that can be read and written, of at least so many bytes.
std::vector<Mapping> shared_mappings(std::uint64_t bytes) {
  std::vector<Mapping> found;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/maps", "re"), std::fclose);
  if (!file) return found;
  char line[512];  // a longer line is a name, whose rest is no mapping
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    unsigned long long begin = 0, end = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%llx-%llx %4s", &begin, &end, rights) != 3) continue;
    if (std::strcmp(rights, "rw-s") == 0 && end - begin >= bytes) found.push_back({begin, end});
  }
  return found;
}

// The same pages a second time (mremap(2), "If the value of old_size is zero").
std::byte* map_again(const Mapping& mapping, std::uint64_t bytes) {
  void* const again = mremap(reinterpret_cast<void*>(mapping.begin), 0, bytes, MREMAP_MAYMOVE);
  return again == MAP_FAILED ? nullptr : static_cast<std::byte*>(again);
}

}  // namespace

bool Windows::show(std::uint64_t address, std::uint64_t bytes, std::uint64_t nonce_at, std::uint64_t nonce) {
  hide(address);
  if (bytes < sizeof nonce || nonce_at > bytes - sizeof nonce) return false;
  const CarefulReader reader;
  for (const Mapping& mapping : shared_mappings(bytes)) {
    if (reader.word(mapping.begin + nonce_at) != nonce) continue;
    std::byte* const memory = map_again(mapping, bytes);
    if (memory == nullptr) continue;
    // Another mapping may have come to its place meanwhile.
    if (reader.word(reinterpret_cast<std::uintptr_t>(memory) + nonce_at) == nonce) {
      windows_.push_back({address, bytes, memory});
      return true;
    }
    munmap(memory, bytes);
  }
  return false;
}

void Windows::hide(std::uint64_t address) {
  std::erase_if(windows_, [&](const Window& window) {
    if (window.address != address) return false;
    munmap(window.memory, window.bytes);
    return true;
  });
}

void Windows::clear() {
  for (const Window& window : windows_) munmap(window.memory, window.bytes);
  windows_.clear();
}

std::byte* Windows::at(std::uint64_t address, std::uint64_t bytes) const {
  for (const Window& window : windows_) {
    const std::uint64_t offset = address - window.address;  // of an address in front of the window: wraps
    if (offset <= window.bytes && bytes <= window.bytes - offset) return window.memory + offset;
  }
  return nullptr;
}

}  // namespace svp::array
