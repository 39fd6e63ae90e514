// SPDX-License-Identifier: Apache-2.0
// A library that may or may not be installed. Never unloaded: peers start threads that outlive their last call.
#pragma once

#include <dlfcn.h>

#include <expected>
#include <string>

namespace bench {

class SharedObject {
 public:
  static std::expected<SharedObject, std::string> open(const char* name) {
    void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return std::unexpected(std::string(name) + " is not here");
    return SharedObject(handle);
  }
  // False when the library has no such function.
  template <typename Function>
  bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  explicit SharedObject(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace bench
