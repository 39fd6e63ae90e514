// SPDX-License-Identifier: Apache-2.0
// Where the firmware that belongs to this code is: relative to the file that the code was loaded from, libspyre.so or a
// program, in a build tree and in an installation. Nothing of the machine that built it is remembered.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "qemu/card.hpp"

namespace svp {
namespace {

// <build>/host_driver/cli/spyre is three below the folder of a build tree's firmware.
constexpr int kFoldersAbove = 5;
constexpr std::array kArrayPlaces = {
    "qemu/array/libspyre-array.so",  // build tree
    "spyre/libspyre-array.so",       // as the firmware below
    "lib/spyre/libspyre-array.so",
};
constexpr std::array kPlaces = {
    "firmware/spyre-firmware.elf",  // build tree
    "spyre/spyre-firmware.elf",  // installed, from the library: <prefix>/lib, or a folder of an architecture below it
    "lib/spyre/spyre-firmware.elf",  // installed, from a program: <prefix>/bin, <prefix>/libexec/spyre
};

std::filesystem::path folder_of_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

// Of the shared library that holds this function; empty when it is the program itself.
std::filesystem::path folder_of_library() {
  Dl_info info{};
  void* extra = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(&find_firmware), &info, &extra, RTLD_DL_LINKMAP) == 0) return {};
  const auto* map = static_cast<const ::link_map*>(extra);
  if (map == nullptr || map->l_name == nullptr || *map->l_name == '\0') return {};
  std::error_code error;
  return std::filesystem::canonical(map->l_name, error).parent_path();
}

// The first of `places` below a folder above this code that `usable` takes.
template <typename Places, typename Usable>
std::optional<std::filesystem::path> find_beside(const Places& places, Usable usable) {
  for (std::filesystem::path folder : {folder_of_library(), folder_of_program()}) {
    for (int i = 0; i < kFoldersAbove && folder.has_relative_path(); ++i, folder = folder.parent_path()) {
      for (const char* place : places) {
        if (usable(folder / place)) return folder / place;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Expected<std::filesystem::path> find_firmware() {
  std::string looked;
  const auto usable = [&](const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error)) return true;
    looked.append(looked.empty() ? "" : ", ").append(path.string());
    return false;
  };
  if (const char* named = std::getenv("SPYRE_FIRMWARE"); named != nullptr && *named != '\0') {
    if (usable(named)) return named;
  } else if (auto found = find_beside(kPlaces, usable)) {
    return *std::move(found);
  }
  return std::unexpected(refused_by_driver("firmware", "no firmware found; looked at " + looked,
                                           "build or install it, or name the file in SPYRE_FIRMWARE"));
}

Expected<FoundArray> find_array(const std::filesystem::path& asked) {
  const char* const variable = std::getenv("SPYRE_ARRAY");
  std::string wanted = !asked.empty() ? asked.string() : variable == nullptr ? "" : variable;
  if (wanted == "off") return FoundArray{};
  std::error_code error;
  const auto usable = [&](const std::filesystem::path& path) { return std::filesystem::is_regular_file(path, error); };
  if (wanted.empty() || wanted == "auto") return FoundArray{.plugin = find_beside(kArrayPlaces, usable).value_or("")};
  if (usable(wanted)) return FoundArray{.plugin = std::move(wanted), .named = true};
  return std::unexpected(refused_by_driver("array", "no compute array: there is no file " + wanted,
                                           "say auto, off, or the path of libspyre-array.so (--array, SPYRE_ARRAY)"));
}

}  // namespace svp
