// Tensors of torch in C++, through the functions in C that it keeps the same from version to version: none of its
// larger headers is read, so compiling stays a matter of seconds.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

inline void require(bool right, const std::string& otherwise) {
  if (!right) throw std::runtime_error(otherwise);
}

inline void done(AOTITorchError error) {
  if (error != AOTI_TORCH_SUCCESS) throw std::runtime_error("torch could not do what was asked for");
}

template <typename T> int32_t type_of();
template <> inline int32_t type_of<float>() { return aoti_torch_dtype_float32(); }
template <> inline int32_t type_of<int32_t>() { return aoti_torch_dtype_int32(); }
template <> inline int32_t type_of<int64_t>() { return aoti_torch_dtype_int64(); }
template <> inline int32_t type_of<int8_t>() { return aoti_torch_dtype_int8(); }
template <> inline int32_t type_of<bool>() { return aoti_torch_dtype_bool(); }

using Sizes = std::vector<int64_t>;

// A tensor on the processor: where it is, its sizes, and its steps from one number to the next in each dimension.
class Array {
 public:
  explicit Array(AtenTensorHandle handle) : handle_(handle) {  // owned from now on
    done(aoti_torch_get_dim(handle, &dims_));
    done(aoti_torch_get_sizes(handle, &sizes_));
    done(aoti_torch_get_strides(handle, &steps_));
  }
  Array(const Array& other) : Array(other.shared()) {}
  Array& operator=(const Array&) = delete;
  ~Array() { aoti_torch_delete_tensor_object(handle_); }

  template <typename T>
  static Array made(const Sizes& sizes) {
    AtenTensorHandle handle;
    Sizes steps = dense_steps(sizes);
    done(aoti_torch_empty_strided(sizes.size(), sizes.data(), steps.data(), type_of<T>(), aoti_torch_device_type_cpu(),
                                  0, &handle));
    return Array(handle);
  }

  int64_t dims() const { return dims_; }
  int64_t size(int64_t dim) const { return sizes_[dim]; }
  int64_t step(int64_t dim) const { return steps_[dim]; }
  Sizes sizes() const { return Sizes(sizes_, sizes_ + dims_); }
  int64_t count() const {
    int64_t count = 1;
    for (int64_t i = 0; i < dims_; i++) count *= sizes_[i];
    return count;
  }

  template <typename T>
  T* data() const {
    int32_t type;
    void* place;
    done(aoti_torch_get_dtype(handle_, &type));
    require(type == type_of<T>(), "numbers of another type");
    done(aoti_torch_get_data_ptr(handle_, &place));
    return static_cast<T*>(place);
  }

  // The same numbers, row after row.
  template <typename T>
  Array dense() const {
    int64_t wanted = 1;
    bool is = true;
    for (int64_t i = dims_; i-- > 0; wanted *= sizes_[i]) is = is && (sizes_[i] == 1 || steps_[i] == wanted);
    if (is) return *this;
    data<T>();  // of the right type, or refused
    Array copy = made<T>(sizes());
    done(aoti_torch_copy_(copy.handle_, handle_, 0));
    return copy;
  }

  // The same numbers, of dense rows, in another shape.
  Array seen_as(const Sizes& sizes) const { return seen_as(sizes, dense_steps(sizes)); }
  Array transposed() const { return seen_as({sizes_[1], sizes_[0]}, {steps_[1], steps_[0]}); }

  // The same place for numbers of another type.
  template <typename T>
  Array place_for() const {
    AtenTensorHandle handle;
    done(aoti_torch_cpu_view_dtype(handle_, type_of<T>(), &handle));
    return Array(handle);
  }

  AtenTensorHandle handle() const { return handle_; }

  // One more owner of the same tensor.
  AtenTensorHandle shared() const {
    AtenTensorHandle handle;
    done(aoti_torch_new_tensor_handle(handle_, &handle));
    return handle;
  }

  std::string shape() const {
    std::string said = "(";
    for (int64_t i = 0; i < dims_; i++) said += (i ? ", " : "") + std::to_string(sizes_[i]);
    return said + ")";
  }

 private:
  AtenTensorHandle handle_;
  int64_t dims_, *sizes_, *steps_;  // the tensor keeps them

  Array seen_as(const Sizes& sizes, const Sizes& steps) const {
    AtenTensorHandle handle;
    done(aoti_torch__reinterpret_tensor(handle_, sizes.size(), sizes.data(), steps.data(), 0, &handle));
    return Array(handle);
  }

  static Sizes dense_steps(const Sizes& sizes) {
    Sizes steps(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) steps[i - 1] = steps[i] * sizes[i];
    return steps;
  }
};

// Where the numbers of an array with four dimensions are.
struct Steps {
  int64_t batch, head, row, column;
};

// What has one number along a dimension has it for all.
inline Steps steps_of(const Array& x) {
  auto step = [&](int64_t dim) { return x.size(dim) == 1 ? 0 : x.step(dim); };
  return {step(0), step(1), step(2), step(3)};
}

// With the numbers of each row side by side.
inline Array dense_rows(const Array& x) { return x.step(3) == 1 || x.size(3) == 1 ? x : x.dense<float>(); }

// Whether an array has these sizes, or 1 in the place of some.
inline bool spans(const Array& x, std::initializer_list<int64_t> sizes) {
  int64_t dim = 0;
  for (int64_t size : sizes) {
    if (x.size(dim) != 1 && x.size(dim) != size) return false;
    dim++;
  }
  return true;
}

// Arguments as torch hands them over, 64 bits each: a tensor, perhaps a tensor, a number. Tensors are given away.
template <typename T>
struct Argument {
  T value;
  explicit Argument(StableIValue bits) { std::memcpy(&value, &bits, sizeof(T)); }
};

template <>
struct Argument<Array> {
  Array value;
  explicit Argument(StableIValue bits) : value(std::bit_cast<AtenTensorHandle>(bits)) {}
};

template <>
struct Argument<std::optional<Array>> {
  std::optional<Array> value;
  explicit Argument(StableIValue bits) {
    if (StableIValue* place = std::bit_cast<StableIValue*>(bits)) {
      value.emplace(std::bit_cast<AtenTensorHandle>(*place));
      delete place;
    }
  }
};

using Pair = std::pair<Array, Array>;

inline void give(StableIValue* bits, const Array& result) { bits[0] = std::bit_cast<StableIValue>(result.shared()); }
inline void give(StableIValue* bits, const Pair& results) { give(bits, results.first), give(bits + 1, results.second); }

// A function as torch calls an operator: its results are put where the arguments were.
template <auto function>
struct Boxed;

template <typename Result, typename... Arguments, Result (*function)(const Arguments&...)>
struct Boxed<function> {
  static void call(StableIValue* bits, uint64_t, uint64_t) {
    call(bits, std::index_sequence_for<Arguments...>{});
  }

 private:
  template <size_t... i>
  static void call(StableIValue* bits, std::index_sequence<i...>) {
    give(bits, function(Argument<Arguments>(bits[i]).value...));
  }
};

// Make a function what computes the operator of that name on a processor; nonzero if torch would not have it.
template <auto function>
AOTITorchError registered(const char* name) {
  TorchLibraryHandle library;  // it stays as long as the process
  AOTITorchError error = aoti_torch_library_init_impl("glassformer", "CPU", __FILE__, __LINE__, &library);
  return error ? error : aoti_torch_library_impl(library, name, Boxed<function>::call);
}
