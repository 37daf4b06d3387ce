// Stands for the framework of the vendor's unit tests of operators: descriptions of arguments, and
// phase one called with them. The names and parameters are those that the tests use.
#pragma once
#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <complex>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnn/opdev/fp16_t.h"
#include "hccl/hccl.h"

namespace nlohmann {}
using namespace std;

#define ACLNN_API

// The chips, by the names that the tests give them.
enum class NpuArch : uint32_t {
    DAV_1001 = 1001, DAV_2002 = 2002, DAV_2201 = 2201, DAV_3002 = 3002, DAV_3102 = 3102, DAV_3505 = 3505, DAV_3510 = 3510, DAV_5102 = 5102,
    DAV_RESV = 0xFFFF
};
namespace op {
enum class SocVersion {
    ASCEND910 = 0, ASCEND910B, ASCEND910_93, ASCEND350, ASCEND950, ASCEND910E, ASCEND310, ASCEND310P, ASCEND310B, ASCEND310C, ASCEND610LITE, KIRINX90,
    KIRIN9030, RESERVED_VERSION = 99999
};
constexpr uint64_t MAX_DIM_NUM = 25;
SocVersion Chip();
void SetPlatformSocVersion(SocVersion chip);
void SetPlatformNpuArch(NpuArch arch);
inline void SetCubeCoreNum(uint32_t) {}

// A chip until the end of a block.
class SocVersionManager {
public:
    explicit SocVersionManager(SocVersion chip) : before(Chip()) { SetPlatformSocVersion(chip); }
    ~SocVersionManager() { SetPlatformSocVersion(before); }
private:
    SocVersion before;
};
class NpuArchManager {
public:
    explicit NpuArchManager(NpuArch arch) : before(Chip()) { SetPlatformNpuArch(arch); }
    ~NpuArchManager() { SetPlatformSocVersion(before); }
private:
    SocVersion before;
};
class PlatformInfo {
public:
    SocVersion GetSocVersion() const { return Chip(); }
    NpuArch GetCurNpuArch() const;
};
const PlatformInfo& GetCurrentPlatformInfo();
}

// Descriptions of arguments.
class TensorDesc {
public:
    TensorDesc(const vector<int64_t>& view = {1, 1, 16, 16}, aclDataType type = ACL_FLOAT, aclFormat format = ACL_FORMAT_NCHW,
               const vector<int64_t>& strides = {}, int64_t offset = 0, const vector<int64_t>& storage = {})
        : view(view), type(type), format(format), strides(strides), offset(offset), storage(storage) {}
    // What is about values is for phase two, which the tests do not run.
    TensorDesc& Precision(float, float, float = 0) { return *this; }
    template <class T> TensorDesc& ValueRange(T, T) { return *this; }
    template <class T> TensorDesc& Value(const vector<T>&) { return *this; }
    TensorDesc& ValueFile(const string&) { return *this; }
    TensorDesc& ValidCount(int32_t) { return *this; }
    TensorDesc& ViewDims(const vector<int64_t>& dims) { view = dims; return *this; }
    TensorDesc& Format(aclFormat f) { format = f; return *this; }
    aclTensor* ToAclTypeRawPtr() const;
    unique_ptr<aclTensor, void (*)(aclTensor*)> ToAclType() const { return {ToAclTypeRawPtr(), [](aclTensor* t) { if (t) aclDestroyTensor(t); }}; }

    vector<int64_t> view;
    aclDataType type;
    aclFormat format;
    vector<int64_t> strides;
    int64_t offset;
    vector<int64_t> storage;
};

class TensorListDesc {
public:
    TensorListDesc(const vector<TensorDesc>& list) : list(list) {}
    TensorListDesc(int n, const TensorDesc& each) : list(n, each) {}
    aclTensorList* ToAclTypeRawPtr() const;
    unique_ptr<aclTensorList, void (*)(aclTensorList*)> ToAclType() const { return {ToAclTypeRawPtr(), [](aclTensorList* l) { if (l) aclDestroyTensorList(l); }}; }
    vector<TensorDesc> list;
};

class ScalarDesc {
public:
    ScalarDesc(bool v) : type(ACL_BOOL) { set(v); }
    ScalarDesc(int8_t v) : type(ACL_INT8) { set(v); }
    ScalarDesc(uint8_t v) : type(ACL_UINT8) { set(v); }
    ScalarDesc(int16_t v) : type(ACL_INT16) { set(v); }
    ScalarDesc(uint16_t v) : type(ACL_UINT16) { set(v); }
    ScalarDesc(int32_t v) : type(ACL_INT32) { set(v); }
    ScalarDesc(uint32_t v) : type(ACL_UINT32) { set(v); }
    ScalarDesc(int64_t v) : type(ACL_INT64) { set(v); }
    ScalarDesc(uint64_t v) : type(ACL_UINT64) { set(v); }
    ScalarDesc(double v) : type(ACL_DOUBLE) { set(v); }
    ScalarDesc(float v, aclDataType type = ACL_FLOAT) : type(type)
    {
        if (type == ACL_FLOAT) set(v);
        else set(op::fp16_t(v).val);
    }
    aclScalar* ToAclTypeRawPtr() const { return aclCreateScalar(const_cast<unsigned char*>(bytes), type); }
    unique_ptr<aclScalar, void (*)(aclScalar*)> ToAclType() const { return {ToAclTypeRawPtr(), [](aclScalar* s) { if (s) aclDestroyScalar(s); }}; }
private:
    template <class T> void set(T v) { memcpy(bytes, &v, sizeof v); }
    alignas(16) unsigned char bytes[16] = {};
    aclDataType type;
};

template <class T, class Array, Array* (*create)(const T*, uint64_t), aclnnStatus (*destroy)(const Array*)> class ArrayDesc {
public:
    ArrayDesc(const vector<T>& values) : values(values.begin(), values.end()) {}
    ArrayDesc(int n, T each) : values(n, each) {}
    Array* ToAclTypeRawPtr() const
    {
        unique_ptr<T[]> copy(new T[values.size() + 1]());
        copy_n(values.begin(), values.size(), copy.get());
        return create(copy.get(), values.size());
    }
    unique_ptr<Array, void (*)(Array*)> ToAclType() const { return {ToAclTypeRawPtr(), [](Array* a) { if (a) destroy(a); }}; }
    vector<T> Get() const { return values; }
private:
    vector<T> values;
};
using IntArrayDesc = ArrayDesc<int64_t, aclIntArray, aclCreateIntArray, aclDestroyIntArray>;
using FloatArrayDesc = ArrayDesc<float, aclFloatArray, aclCreateFloatArray, aclDestroyFloatArray>;
using BoolArrayDesc = ArrayDesc<bool, aclBoolArray, aclCreateBoolArray, aclDestroyBoolArray>;

// An argument of phase one: a number or a handle, and what releases it.
class Argument {
public:
    Argument(const TensorDesc& d) { hold(d.ToAclTypeRawPtr(), aclDestroyTensor); }
    Argument(const TensorListDesc& d) { hold(d.ToAclTypeRawPtr(), aclDestroyTensorList); }
    Argument(const ScalarDesc& d) { hold(d.ToAclTypeRawPtr(), aclDestroyScalar); }
    Argument(const IntArrayDesc& d) { hold(d.ToAclTypeRawPtr(), aclDestroyIntArray); }
    Argument(const FloatArrayDesc& d) { hold(d.ToAclTypeRawPtr(), aclDestroyFloatArray); }
    Argument(const BoolArrayDesc& d) { hold(d.ToAclTypeRawPtr(), aclDestroyBoolArray); }
    Argument(nullptr_t) {}
    template <class T> Argument(T* p) : pointer(const_cast<void*>(static_cast<const void*>(p))) {}
    template <class T, enable_if_t<is_arithmetic_v<T> || is_enum_v<T>, int> = 0> Argument(T v)
    {
        if constexpr (is_floating_point_v<T>) integer = static_cast<int64_t>(v), real = v;
        else integer = static_cast<int64_t>(v), real = static_cast<double>(integer);
    }
    template <class T> T as() const
    {
        if constexpr (is_pointer_v<T>) return static_cast<T>(pointer);
        else if constexpr (is_floating_point_v<T>) return static_cast<T>(real);
        else return static_cast<T>(integer);
    }
private:
    template <class T, class Destroy> void hold(T* p, Destroy destroy)
    {
        pointer = p;
        owner = shared_ptr<void>(p, [destroy](void* q) { if (q) destroy(static_cast<T*>(q)); });
    }
    void* pointer = nullptr;
    shared_ptr<void> owner;
    int64_t integer = 0;
    double real = 0;
};

// A part of a call's arguments, from a list or a tuple.
inline vector<Argument> Part(vector<Argument> list) { return list; }
template <class... T> vector<Argument> Part(const tuple<T...>& t)
{
    return apply([](const T&... each) { return vector<Argument>{Argument(each)...}; }, t);
}

// Said about a call to who reads the results.
void Calls(const char* operation);
aclnnStatus Called(aclnnStatus code);

template <class F> class Phase;
template <class... P> class Phase<aclnnStatus (*)(P...)> {
public:
    Phase(const char* name, aclnnStatus (*prepare)(P...), vector<vector<Argument>> parts) : name(name), prepare(prepare)
    {
        for (auto& part : parts) arguments.insert(arguments.end(), part.begin(), part.end());
    }
    aclnnStatus TestGetWorkspaceSize(uint64_t* size)
    {
        aclOpExecutor* executor = nullptr;
        aclnnStatus code = call(size, &executor, make_index_sequence<sizeof...(P) - 2>{});
        if (executor) aclDestroyAclOpExecutor(executor);
        return code;
    }
    aclnnStatus TestGetWorkspaceSizeWithNNopbaseInner(uint64_t* size, aclOpExecutor*) { return TestGetWorkspaceSize(size); }
    void TestPrecision() {}
private:
    template <size_t... I> aclnnStatus call(uint64_t* size, aclOpExecutor** executor, index_sequence<I...>)
    {
        Calls(name);
        if (arguments.size() != sizeof...(I)) {
            ADD_FAILURE() << name << " has " << sizeof...(I) << " arguments, the case gives " << arguments.size();
            return Called(-1);
        }
        using All = tuple<P...>;
        return Called(prepare(arguments[I].template as<tuple_element_t<I, All>>()..., size, executor));
    }
    const char* name;
    aclnnStatus (*prepare)(P...);
    vector<Argument> arguments;
};
template <class... P> Phase(const char*, aclnnStatus (*)(P...), vector<vector<Argument>>) -> Phase<aclnnStatus (*)(P...)>;

#define INPUT(...) vector<Argument>{__VA_ARGS__}
#define OUTPUT(...) vector<Argument>{__VA_ARGS__}
#define OP_API_UT(api, input, output, ...) Phase(#api, api##GetWorkspaceSize, {Part(input), Part(output), vector<Argument>{__VA_ARGS__}})
