package foreach

// Table holds the operators of the family by name without "aclnn".
var Table = foreachTable
