#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::process {

/// Puts values one behind the other, as they lie in memory: for readers of the same build.
class ByteWriter {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value);
  }
  /// A number of values, and these.
  template <typename T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(std::uint64_t{values.size()});
    append(values.data(), values.size_bytes());
  }
  void put_text(std::string_view text) { put_all(std::span(text.data(), text.size())); }

  [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

 private:
  void append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  std::vector<std::byte> bytes_;
};

/// Takes them out again, in the same order.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  /// @throws ProtocolError if fewer bytes are left, as the other calls
  template <typename T>
  [[nodiscard]] T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    take(&value, sizeof value);
    return value;
  }
  template <typename T>
  [[nodiscard]] std::vector<T> get_all() {
    const auto count = get<std::uint64_t>();
    if (count > left_.size() / sizeof(T)) refuse();
    std::vector<T> values(count);
    take(values.data(), count * sizeof(T));
    return values;
  }
  [[nodiscard]] std::string get_text() {
    const std::vector<char> text = get_all<char>();
    return {text.begin(), text.end()};
  }

 private:
  void take(void* to, std::size_t size) {
    if (size > left_.size()) refuse();
    if (size > 0) std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
  }
  [[noreturn]] static void refuse() { throw ProtocolError("a rank's words are cut short"); }

  std::span<const std::byte> left_;
};

}  // namespace sluice::process
