package register
